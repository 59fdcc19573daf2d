// The course of a replay, whatever the back end: place, restore, run, compare.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "replay/driver.hpp"
#include "replay/chunk_reader.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

struct Options {
  std::uint64_t iterations = 1;
  std::uint64_t warmup = 0;
  bool flush_cache = false;
  bool compare = true;                    // with the golden post-state, after the last run
  bool interleave = false;                // baseline and variant in turn
  std::string dump_folder;
  std::optional<std::array<std::uint32_t, 3>> grid;
  std::optional<std::array<std::uint32_t, 3>> block;
  std::optional<std::uint32_t> dynamic_lds_bytes;
};

// How one region (or variable) differs from its golden state.
struct Difference {
  std::string name;                       // of a variable; empty for a region
  std::uint64_t base;
  std::uint64_t first_offset;             // of the first byte that differs
  std::uint64_t bytes;
};

struct Outcome {
  std::vector<std::uint64_t> baseline_ns;
  std::vector<std::uint64_t> variant_ns;
  std::uint64_t restored_bytes = 0;
  std::uint64_t restore_ns = 0;
  bool compared = false;
  std::uint64_t compared_bytes = 0;
  std::vector<Difference> differences;
};

class Engine {
 public:
  Engine(const Plan& plan, const Options& options, Driver& driver)
      : m_plan(plan), m_options(options), m_driver(driver) {}

  [[nodiscard]] core::Result<Outcome> run(const std::vector<Range>& ranges);
  // Whether the error that run() returned is the kernel's own doing.
  [[nodiscard]] bool faulted() const noexcept { return m_faulted; }

 private:
  core::Result<void> restore();
  core::Result<void> restore_variables(Code& code);
  core::Result<void> save_write_set();
  core::Result<void> run_once(Code& code, std::vector<std::uint64_t>* times, bool first);
  core::Result<void> compare(Code& code);
  core::Result<void> compare_variables(Code& code);
  core::Result<void> dump();

  const Plan& m_plan;
  const Options& m_options;
  Driver& m_driver;
  std::shared_ptr<core::ObjectStore> m_store;
  Outcome m_outcome;
  bool m_faulted = false;
};

}  // namespace kerncap::replay
