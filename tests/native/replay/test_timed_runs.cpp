// What each timed run left, on a device that is two chunks of this process; and a code object's own variables.
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "../check.hpp"
#include "../core/scratch_store.hpp"
#include "one_region.hpp"
#include "replay/engine.hpp"
#include "stub_driver.hpp"

using namespace kerncap;

namespace {

constexpr std::uint64_t k_base = 0x1000;
constexpr std::size_t k_words = 2 * core::k_chunk_bytes / sizeof(std::uint32_t);
constexpr std::size_t k_counter = k_words;       // of launches, behind the only region
constexpr std::uint64_t k_own = k_base + k_counter * sizeof(std::uint32_t);

struct OwnCode final : replay::Code {
  [[nodiscard]] std::vector<replay::AddressRange> own_data() const override { return {{k_own, sizeof(std::uint32_t)}}; }
};

// Its kernel counts up the first word, and forgets to in every so-manieth launch.
class Device final : public test::MemoryDriver, private replay::Watch {
 public:
  Device(std::uint32_t odd_each, bool compares, bool counts)
      : MemoryDriver(k_base, k_words + 1), m_odd_each(odd_each), m_compares(compares), m_counts(counts) {
    m_opened.is_software = true;
  }
  // Its cache and its clocks show in times.
  void be_hardware() { m_opened.is_software = false; }
  [[nodiscard]] std::uint32_t launches() const { return m_launches; }
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte>, const std::string&,
                                                   std::optional<std::uint64_t>) override {
    return std::unique_ptr<replay::Code>(std::make_unique<OwnCode>());
  }
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch&) override {
    std::uint32_t& launches = m_counts ? m_memory[k_counter] : m_launches;
    if (++launches % m_odd_each != 0) ++m_memory[0];
    return replay::Timing{10};
  }
  core::Result<void> save(const std::vector<std::pair<const replay::Region*, replay::ByteRange>>& parts) override {
    for (const auto& [region, part] : parts) {
      m_saved.push_back({(region->base + part.offset - k_base) / sizeof(std::uint32_t), 0});
      m_saved.back().second = m_memory[m_saved.back().first];
    }
    return {};
  }
  core::Result<void> restore_saved() override {
    for (const auto& [word, value] : m_saved) m_memory[word] = value;
    return {};
  }
  replay::Watch* watch() override { return m_compares ? this : nullptr; }

 private:
  core::Result<std::vector<const replay::Region*>> remember(const std::vector<const replay::Region*>& regions) override {
    m_remembered = m_memory;
    return regions;
  }
  core::Result<std::vector<replay::AddressRange>> written_outside() override { return std::vector<replay::AddressRange>(); }
  core::Result<std::vector<std::uint32_t>> changed(std::uint64_t chunk_bytes) override {
    std::vector<std::uint32_t> words;
    for (std::size_t at = 0; at < k_words * sizeof(std::uint32_t); at += chunk_bytes) {
      const std::size_t word = at / sizeof(std::uint32_t);
      words.push_back(std::memcmp(&m_memory[word], &m_remembered[word], chunk_bytes) != 0);
    }
    return words;
  }

  std::uint32_t m_odd_each;
  bool m_compares;
  bool m_counts;                                  // in a variable of the code object
  std::uint32_t m_launches = 0;
  std::vector<std::uint32_t> m_remembered;
  std::vector<std::pair<std::size_t, std::uint32_t>> m_saved;
};

replay::Outcome run(Device& device, std::uint64_t iterations, const std::filesystem::path& folder) {
  test::OneRegion region(k_base, k_words);
  region.plan.variant = region.plan.baseline;
  region.plan.variant_symbol = region.plan.symbol;
  std::filesystem::create_directories(folder);
  replay::Options options;
  options.iterations = iterations;
  options.states_folder = folder.string();
  return region.run(options, device);
}

using States = std::vector<std::uint64_t>;

void a_wrong_run_among_others_is_told_and_dumped(bool compares) {
  const test::ScratchStore scratch;
  Device device(3, compares, false);
  const replay::Outcome outcome = run(device, 7, scratch.path() / "out");
  CHECK((outcome.variant_states == States{0, 0, 1, 0, 0, 1, 0}));
  CHECK(outcome.variant_ns.size() == 7 && outcome.first_state == 0 && outcome.differences.empty());
  CHECK(std::filesystem::exists(scratch.path() / "out/state_1"));
  CHECK(!std::filesystem::exists(scratch.path() / "out/state_2"));
}

void a_wrong_first_run_is_the_state_that_others_differ_from(bool compares) {
  const test::ScratchStore scratch;
  Device device(1, compares, false);
  const replay::Outcome outcome = run(device, 2, scratch.path() / "out");
  CHECK((outcome.variant_states == States{1, 1}));
  CHECK(outcome.first_state == 1 && outcome.differences.size() == 1);
}

void a_counter_of_the_code_does_not_outlive_a_run() {
  const test::ScratchStore scratch;
  Device device(3, false, true);
  CHECK((run(device, 7, scratch.path() / "out").variant_states == States(7, 0)));
}

void a_kernel_runs_once_more_before_each_timed_run_behind_a_judgement() {
  const test::ScratchStore scratch;
  Device device(100, true, false);
  device.be_hardware();
  const replay::Outcome outcome = run(device, 7, scratch.path() / "out");
  CHECK(device.launches() == 7 + 6 && outcome.variant_ns.size() == 7);
  CHECK((outcome.variant_states == States(7, 0)));
}

}  // namespace

int main() {
  for (const bool compares : {false, true}) {
    a_wrong_run_among_others_is_told_and_dumped(compares);
    a_wrong_first_run_is_the_state_that_others_differ_from(compares);
  }
  a_counter_of_the_code_does_not_outlive_a_run();
  a_kernel_runs_once_more_before_each_timed_run_behind_a_judgement();
  return test::exit_code();
}
