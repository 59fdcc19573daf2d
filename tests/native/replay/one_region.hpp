// A plan of one region of words in a scratch store: each state of it holds fives but for its first word.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "../check.hpp"
#include "../core/scratch_store.hpp"
#include "core/transaction.hpp"
#include "replay/engine.hpp"

namespace kerncap::test {

class OneRegion {
 public:
  // The region is known to be written in its first word only, from 1 to 2.
  OneRegion(std::uint64_t base, std::size_t words) : m_words(words) {
    auto transaction = core::Transaction::begin(m_scratch.open());
    const auto put = [&](const char* name, std::uint32_t first) {
      std::vector<std::uint32_t> state(m_words, 5);
      state[0] = first;
      core::ChunkDigests digests;
      CHECK(transaction.value()->put_chunks(std::as_bytes(std::span(state)), digests).ok());
      plan.memories[name] = {m_words * sizeof state[0], core::k_chunk_bytes, {digests.at(0)->hex(), digests.at(1)->hex()}};
      return &plan.memories[name];
    };
    replay::Region region;
    region.base = base;
    region.bytes = m_words * sizeof(std::uint32_t);
    region.pre = put("pre", 1);
    region.post = put("post", 2);
    region.written = {{0, sizeof(std::uint32_t)}};
    plan.regions.push_back(region);
    CHECK(transaction.value()->publish({}).ok());
    plan.store = m_scratch.path().string();
    plan.baseline = (m_scratch.path() / "format").string();
    plan.symbol = "kernel";
  }

  // What runs of the plan come to.
  replay::Outcome run(const replay::Options& options, replay::Driver& device) {
    replay::Engine engine(plan, options, device);
    auto outcome = engine.run({});
    CHECK(outcome.ok());
    return outcome.ok() ? outcome.value() : replay::Outcome{};
  }

  replay::Plan plan;

 private:
  ScratchStore m_scratch;
  std::size_t m_words;
};

}  // namespace kerncap::test
