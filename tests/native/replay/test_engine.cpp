// What the engine makes of a plan, on devices that are a few bytes of this process.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "../check.hpp"
#include "../core/scratch_store.hpp"
#include "core/transaction.hpp"
#include "one_region.hpp"
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
struct OneVariable final : replay::Code {
  std::optional<std::uint64_t> variable(const std::string&, std::uint64_t) const override { return load_address; }
};

class LoadsAnywhere final : public test::StubDriver {
 public:
  LoadsAnywhere() : StubDriver({4, sizeof(std::uint32_t)}) {}
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
    auto code = std::make_unique<OneVariable>();
    code->load_address = m_next += 0x1000;
    m_memory[code->load_address] = number_in(file);
    return std::unique_ptr<replay::Code>(std::move(code));
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

// Memory in which the program changed the last word while the captured kernel ran; the kernel changed the first one.
constexpr std::size_t k_words = 32;                       // two cells

class SharedMemory final : public test::MemoryDriver {
 public:
  // Which words the replayed kernel writes, and with what.
  explicit SharedMemory(std::map<std::size_t, std::uint32_t> writes)
      : MemoryDriver(k_captured_at, 2 * k_words),         // of both regions
        m_writes(std::move(writes)) {}
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch&) override {
    for (const auto& [word, value] : m_writes) m_memory[word] = value;
    return replay::Timing{};
  }

 private:
  std::map<std::size_t, std::uint32_t> m_writes;
};

struct Case {
  std::map<std::size_t, std::uint32_t> writes;
  bool with_output = true;                                // the region behind, device memory: the kernel changed its first word
  std::size_t loaded_word = k_words - 1;
  replay::Kind kind = replay::Kind::host_pinned;
};

replay::Outcome replayed(const Case& each) {
  const test::ScratchStore scratch;
  replay::Plan plan;
  auto transaction = core::Transaction::begin(scratch.open());
  const auto put = [&](const std::string& name, const std::map<std::size_t, std::uint32_t>& changed) {
    std::uint32_t words[k_words];
    std::fill(std::begin(words), std::end(words), 1u);
    for (const auto& [word, value] : changed) words[word] = value;
    core::ChunkDigests digests;
    CHECK(transaction.value()->put_chunks(std::as_bytes(std::span(words)), digests).ok());
    plan.memories[name] = {sizeof words, core::k_chunk_bytes, {digests.at(0)->hex()}};
    return &plan.memories[name];
  };
  const auto add = [&](std::uint64_t base, replay::Kind kind, const replay::Memory* post) {
    replay::Region region;
    region.base = base;
    region.bytes = k_words * sizeof(std::uint32_t);
    region.kind = kind;
    region.pre = put("pre", {});
    region.post = post;
    plan.regions.push_back(region);
  };
  std::map<std::size_t, std::uint32_t> changed{{each.loaded_word, 0x09090909}};
  if (each.writes.contains(0)) changed[0] = 7;
  add(k_captured_at, each.kind, put("shared", changed));
  if (each.with_output) {
    add(k_captured_at + k_words * sizeof(std::uint32_t), replay::Kind::device_coarse, put("output", {{0, 5}}));
  }
  CHECK(transaction.value()->publish({}).ok());
  plan.store = scratch.path().string();
  plan.baseline = (scratch.path() / "format").string();
  plan.symbol = "kernel";
  SharedMemory driver(each.writes);
  replay::Options options;
  replay::Engine engine(plan, options, driver);
  auto outcome = engine.run({});
  CHECK(outcome.ok() && outcome.value().compared);
  return outcome.ok() ? outcome.value() : replay::Outcome{};
}

bool says(const replay::Outcome& outcome, const std::string& words) {
  return outcome.notes.size() == 1 && outcome.notes.front().find(words) != std::string::npos;
}

void what_the_host_wrote_meanwhile_is_not_the_kernel_s() {
  const replay::Outcome elsewhere = replayed({{{k_words, 5}}});
  CHECK(elsewhere.differences.empty() && says(elsewhere, "which wrote nothing at all there"));
  // Also where both write: 64 bytes apart, or in another line.
  const replay::Outcome beside = replayed({{{0, 7}, {k_words, 5}}});
  CHECK(beside.differences.empty() && says(beside, "4 bytes of region"));
  const replay::Outcome only_there = replayed({{{0, 7}}, false});
  CHECK(only_there.differences.empty() && says(only_there, "leaves them alone"));
}

void what_the_kernel_had_to_write_is_its_own() {
  // Close to what it writes, wrongly written, and in memory that only it can have changed.
  CHECK(replayed({{{0, 7}, {k_words, 5}}, true, 3}).differences.size() == 1);
  CHECK(replayed({{{0, 8}, {k_words, 5}}}).differences.size() == 1);
  // Outputs are in managed memory, too: what is left out there is left out, unless it is all.
  CHECK(replayed({{{0, 7}, {k_words, 5}}, true, k_words - 1, replay::Kind::managed}).differences.size() == 1);
  CHECK(replayed({{{k_words, 5}}, true, k_words - 1, replay::Kind::managed}).differences.empty());
  CHECK(replayed({{{k_words, 5}}, true, 3, replay::Kind::device_coarse}).differences.size() == 1);
}

void a_kernel_that_writes_nothing_at_all_is_not_right() {
  const replay::Outcome nothing = replayed({{}, false});
  CHECK(nothing.differences.size() == 1 && nothing.differences.front().bytes == 4 && says(nothing, "wrote nothing at all"));
  CHECK(replayed({{}, true}).differences.size() == 2);
}

// A driver that takes no code.
class TakesNoCode final : public test::MemoryDriver {
 public:
  explicit TakesNoCode(core::ErrorCode code)
      : MemoryDriver(k_captured_at, 2 * core::k_chunk_bytes / sizeof(std::uint32_t)), m_code(code) {}
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte>, const std::string&,
                                                   std::optional<std::uint64_t>) override {
    return core::Error{m_code, "not this one"};
  }

 private:
  core::ErrorCode m_code;
};

void code_that_the_driver_does_not_take_is_named_for_what_it_is() {
  using core::ErrorCode;
  test::OneRegion state(k_captured_at, 2 * core::k_chunk_bytes / sizeof(std::uint32_t));
  const auto refusal = [&](const std::string& variant, ErrorCode why) {
    state.plan.variant = variant;
    TakesNoCode device(why);
    const replay::Options options;
    replay::Engine engine(state.plan, options, device);
    const auto outcome = engine.run({});
    CHECK(!outcome.ok());
    return outcome.ok() ? core::Error{} : outcome.error();
  };
  for (const ErrorCode why : {ErrorCode::invalid_argument, ErrorCode::unsupported}) {
    const core::Error of_variant = refusal(state.plan.baseline, why);
    CHECK(of_variant.code == why && of_variant.message == "the variant cannot be loaded: not this one");
  }
  const core::Error damaged = refusal("", ErrorCode::invalid_argument);
  CHECK(damaged.code == ErrorCode::device && damaged.message == "the captured code object cannot be loaded: not this one");
  CHECK(refusal("", ErrorCode::unsupported).code == ErrorCode::unsupported);
}

}  // namespace

int main() {
  what_nobody_changed_keeps_the_variant_s_own_first_value();
  what_the_program_or_the_kernel_changed_is_as_captured();
  what_the_host_wrote_meanwhile_is_not_the_kernel_s();
  what_the_kernel_had_to_write_is_its_own();
  a_kernel_that_writes_nothing_at_all_is_not_right();
  code_that_the_driver_does_not_take_is_named_for_what_it_is();
  return test::exit_code();
}
