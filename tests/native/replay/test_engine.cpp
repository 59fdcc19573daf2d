// What the engine makes of a plan, on devices that are a few bytes of this process.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "../check.hpp"
#include "../core/scratch_store.hpp"
#include "core/transaction.hpp"
#include "replay/engine.hpp"
#include "stub_driver.hpp"

using namespace kerncap;

namespace {

constexpr std::uint64_t k_captured_at = 0x1000;

std::uint32_t number_in(std::span<const std::byte> data) {
  std::uint32_t value = 0;
  std::memcpy(&value, data.data(), sizeof value);
  return value;
}

// Loads code objects wherever it likes; one is a file with the first value of its one variable.
class LoadsAnywhere final : public test::StubDriver {
 public:
  std::size_t staging_count() const override { return 4; }
  std::size_t staging_bytes() const override { return sizeof(std::uint32_t); }
  core::Result<std::byte*> staging(std::size_t buffer) override { return m_staging[buffer]; }
  core::Result<void> send(std::size_t buffer, const replay::Region&, std::uint64_t address, std::uint64_t bytes) override {
    std::memcpy(&m_memory[address], m_staging[buffer], bytes);
    return {};
  }
  core::Result<void> read(const replay::Region&, std::uint64_t address, std::span<std::byte> data) override {
    std::memcpy(data.data(), &m_memory[address], data.size());
    return {};
  }
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte> file, const std::string&,
                                                   std::optional<std::uint64_t>) override {
    auto code = std::make_unique<replay::Code>();
    code->load_address = m_next += 0x1000;
    m_memory[code->load_address] = number_in(file);
    return code;
  }
  std::optional<std::uint64_t> variable(replay::Code& code, const std::string&, std::uint64_t) override {
    return code.load_address;
  }
  core::Result<replay::Timing> launch(replay::Code& code, const replay::Launch&) override {
    seen = m_memory[code.load_address];
    return replay::Timing{};
  }

  std::uint32_t seen = 0;                // by the kernel, in its variable

 private:
  std::map<std::uint64_t, std::uint32_t> m_memory;
  std::byte m_staging[4][sizeof(std::uint32_t)];
  std::uint64_t m_next = k_captured_at;
};

// What a variant finds whose variable begins with 99, where that of the captured code object begins with 7.
std::uint32_t seen_by_variant(std::uint32_t before, std::uint32_t after, bool interleave = false) {
  const test::ScratchStore scratch;
  replay::Plan plan;
  auto transaction = core::Transaction::begin(scratch.open());
  const auto put = [&](const char* name, std::uint32_t value) {
    core::ChunkDigests digests;
    CHECK(transaction.value()->put_chunks(std::as_bytes(std::span(&value, 1)), digests).ok());
    plan.memories[name] = {sizeof value, core::k_chunk_bytes, {digests.at(0) ? digests.at(0)->hex() : ""}};
    return &plan.memories[name];
  };
  const auto write = [&](const char* name, std::uint32_t value) {
    const std::string path = (scratch.path() / name).string();
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&value), sizeof value);
    return path;
  };
  plan.store = scratch.path().string();
  plan.baseline = write("baseline", 7);
  plan.variant = write("variant", 99);
  plan.symbol = plan.variant_symbol = "kernel";
  const replay::Memory* pre = put("pre", before);
  plan.variables.push_back({"table", k_captured_at, sizeof before, pre, before == after ? pre : put("post", after)});
  CHECK(transaction.value()->publish({}).ok());
  LoadsAnywhere driver;
  replay::Options options;
  options.compare = false;
  options.interleave = interleave;
  replay::Engine engine(plan, options, driver);
  CHECK(engine.run({}).ok());
  return driver.seen;
}

void what_nobody_changed_keeps_the_variant_s_own_first_value() {
  CHECK(seen_by_variant(7, 7) == 99);
  CHECK(seen_by_variant(7, 7, true) == 99);
}

void what_the_program_or_the_kernel_changed_is_as_captured() {
  CHECK(seen_by_variant(8, 8) == 8);
  CHECK(seen_by_variant(8, 8, true) == 8);
  CHECK(seen_by_variant(7, 9) == 7);
}

// Pinned memory of two words, of which the program changed one while the captured kernel ran.
class PinnedMemory final : public test::StubDriver {
 public:
  explicit PinnedMemory(std::uint32_t kernel_writes) : m_kernel_writes(kernel_writes) {}
  std::size_t staging_count() const override { return 4; }
  std::size_t staging_bytes() const override { return core::k_chunk_bytes; }
  InPlace in_place(std::uint64_t address, std::uint64_t) const override {
    return {reinterpret_cast<std::byte*>(const_cast<std::uint32_t*>(m_words)) + (address - k_captured_at), false};
  }
  core::Result<void> read(const replay::Region&, std::uint64_t address, std::span<std::byte> data) override {
    std::memcpy(data.data(), in_place(address, data.size()).memory, data.size());
    return {};
  }
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte>, const std::string&,
                                                   std::optional<std::uint64_t>) override {
    return std::make_unique<replay::Code>();
  }
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch&) override {
    if (m_kernel_writes != 0) m_words[0] = m_kernel_writes;
    return replay::Timing{};
  }

 private:
  std::uint32_t m_kernel_writes;
  std::uint32_t m_words[2] = {};
};

replay::Outcome with_pinned_memory(std::uint32_t kernel_writes, replay::Kind kind = replay::Kind::host_pinned) {
  const test::ScratchStore scratch;
  replay::Plan plan;
  auto transaction = core::Transaction::begin(scratch.open());
  const auto put = [&](const char* name, std::uint32_t second) {
    const std::uint32_t words[2] = {1, second};
    core::ChunkDigests digests;
    CHECK(transaction.value()->put_chunks(std::as_bytes(std::span(words)), digests).ok());
    plan.memories[name] = {sizeof words, core::k_chunk_bytes, {digests.at(0)->hex()}};
    return &plan.memories[name];
  };
  replay::Region region;
  region.base = k_captured_at;
  region.bytes = 2 * sizeof(std::uint32_t);
  region.kind = kind;
  region.pre = put("pre", 2);
  region.post = put("post", 3);
  region.written = {{4, 4}};
  plan.regions.push_back(region);
  CHECK(transaction.value()->publish({}).ok());
  plan.store = scratch.path().string();
  plan.baseline = (scratch.path() / "format").string();
  plan.symbol = "kernel";
  PinnedMemory driver(kernel_writes);
  replay::Options options;
  replay::Engine engine(plan, options, driver);
  auto outcome = engine.run({});
  CHECK(outcome.ok());
  return outcome.ok() ? outcome.value() : replay::Outcome{};
}

void what_the_host_wrote_meanwhile_is_not_the_kernel_s() {
  const replay::Outcome untouched = with_pinned_memory(0);
  CHECK(untouched.compared && untouched.differences.empty() && untouched.notes.size() == 1);
  // A kernel that writes there has to write all of it, and device memory is nobody else's.
  CHECK(with_pinned_memory(7).differences.size() == 1);
  CHECK(with_pinned_memory(0, replay::Kind::device_coarse).differences.size() == 1);
}

}  // namespace

int main() {
  what_nobody_changed_keeps_the_variant_s_own_first_value();
  what_the_program_or_the_kernel_changed_is_as_captured();
  what_the_host_wrote_meanwhile_is_not_the_kernel_s();
  return test::exit_code();
}
