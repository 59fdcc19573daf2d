// Further states of one replay, on a device that is two chunks of this process.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../check.hpp"
#include "../core/scratch_store.hpp"
#include "core/transaction.hpp"
#include "replay/engine.hpp"
#include "stub_driver.hpp"

using namespace kerncap;

namespace {

constexpr std::uint64_t k_base = 0x1000;
constexpr std::size_t k_words = 2 * core::k_chunk_bytes / sizeof(std::uint32_t);
constexpr std::size_t k_second_chunk = k_words / 2;

// Its kernel writes the double of the second chunk's first word into the first word of all.
class Device final : public test::SavingDriver {
 public:
  Device() : SavingDriver(k_base, k_words) {}
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch&) override {
    std::this_thread::sleep_for(takes);
    if (before_launch) before_launch(launches);
    if (++launches == faults_at) return core::Error{core::ErrorCode::device, "a fault"};
    // What came before is gone: nothing but the state decides.
    started_from.push_back(m_memory[0]);
    m_memory[0] = 2 * m_memory[k_second_chunk];
    return replay::Timing{};
  }

  std::uint32_t launches = 0;
  std::uint32_t faults_at = 0;
  std::chrono::milliseconds takes{0};
  std::function<void(std::uint32_t)> before_launch;
  std::vector<std::uint32_t> started_from;
};

// A state in a scratch store, with one region and as many further states as there are values.
class Case {
 public:
  explicit Case(const std::vector<std::uint32_t>& further) {
    auto transaction = core::Transaction::begin(m_scratch.open());
    const auto put = [&](const std::string& name, std::uint32_t first, std::uint32_t second) {
      std::vector<std::uint32_t> words(k_words, 5);
      words[0] = first;
      words[k_second_chunk] = second;
      core::ChunkDigests digests;
      CHECK(transaction.value()->put_chunks(std::as_bytes(std::span(words)), digests).ok());
      plan.memories[name] = {k_words * sizeof words[0], core::k_chunk_bytes, {digests.at(0)->hex(), digests.at(1)->hex()}};
      return &plan.memories[name];
    };
    replay::Region region;
    region.base = k_base;
    region.bytes = k_words * sizeof(std::uint32_t);
    region.pre = put("pre", 1, 7);
    region.post = put("post", 14, 7);
    region.written = {{0, sizeof(std::uint32_t)}};
    plan.regions.push_back(region);
    for (const std::uint32_t second : further) {
      const std::string number = std::to_string(plan.states.size() + 1);
      plan.states.push_back({{{0, put("state_" + number, 1, second)}}});
    }
    CHECK(transaction.value()->publish({}).ok());
    plan.store = m_scratch.path().string();
    plan.baseline = (m_scratch.path() / "format").string();
    plan.symbol = "kernel";
  }

  core::Result<replay::Outcome> run(Device& device, std::uint64_t within_ms = ~std::uint64_t{0}) {
    replay::Options options;
    options.states_within_ms = within_ms;
    options.compare = false;
    options.changes_only = true;
    options.dump_folder = m_scratch.path().string() + "/out";
    std::filesystem::create_directory(options.dump_folder);
    replay::Engine engine(plan, options, device);
    core::Result<replay::Outcome> outcome = engine.run({});
    faulted = engine.faulted();
    return outcome;
  }

  // The second chunk of a state has the contents of another's from now on.
  void damage(const std::string& state, const std::string& other) {
    const auto file = [&](const std::string& name) { return m_scratch.file(*core::Digest::from_hex(plan.memories[name].chunks[1])); };
    std::filesystem::remove(file(state));
    std::filesystem::copy_file(file(other), file(state));
  }

  // What a state left in the first word, and the chunks that are not as captured.
  [[nodiscard]] std::pair<std::uint32_t, std::string> left(const std::string& folder) const {
    const std::filesystem::path path = m_scratch.path() / "out" / folder / "changes";
    std::uint32_t word = 0;
    std::ifstream(path.string() + ".bin", std::ios::binary).read(reinterpret_cast<char*>(&word), sizeof word);
    std::ifstream list(path.string() + ".list");
    return {word, {std::istreambuf_iterator<char>(list), std::istreambuf_iterator<char>()}};
  }

  replay::Plan plan;
  bool faulted = false;

 private:
  test::ScratchStore m_scratch;
};

void each_state_is_run_from_and_left_in_a_folder_of_its_own() {
  Case one({9, 7, 11});
  Device device;
  const auto outcome = one.run(device);
  CHECK(outcome.ok() && outcome.value().states == 3 && device.launches == 4);
  CHECK(one.left("") == std::pair(14u, std::string("4096 2097152 0 0\n")));
  CHECK(one.left("state_1") == std::pair(18u, std::string("4096 2097152 0 0\n")));
  // Only what the kernel wrote, also where the state is not as captured.
  CHECK(one.left("state_2") == std::pair(14u, std::string("4096 2097152 0 0\n")));
  CHECK(one.left("state_3") == std::pair(22u, std::string("4096 2097152 0 0\n")));
  // Each from its own state, whatever the run before it left.
  CHECK(device.started_from == std::vector<std::uint32_t>({1, 1, 1, 1}));
}

void a_chunk_is_hashed_once_whatever_states_hold_it() {
  Case one({9, 11, 9});
  Device device;
  device.before_launch = [&](std::uint32_t launches) {
    if (launches == 2) one.damage("state_1", "state_2");
  };
  const auto outcome = one.run(device);
  CHECK(outcome.ok() && outcome.value().states == 3);
  CHECK(one.left("state_1").first == 18 && one.left("state_3").first == 22);
  // What no state before had is hashed.
  Device other;
  const auto damaged = one.run(other);
  CHECK(!damaged.ok() && damaged.error().code == core::ErrorCode::damaged);
}

void a_fault_from_a_state_is_the_kernels_own() {
  Case one({9});
  Device device;
  device.faults_at = 2;
  const auto outcome = one.run(device);
  CHECK(!outcome.ok() && one.faulted);
  CHECK(outcome.error().message == "from another state, a fault");
}

void behind_a_long_run_no_state_is_run_from() {
  for (const std::uint64_t within_ms : {10, 60'000}) {
    Case one({9});
    Device device;
    device.takes = std::chrono::milliseconds(20);
    const auto outcome = one.run(device, within_ms);
    CHECK(outcome.ok() && outcome.value().states == (within_ms == 10 ? 0 : 1) && outcome.value().ran_once.empty());
    CHECK(one.left("").first == 14);
  }
}

void without_room_no_state_is_run_from() {
  Case one({9});
  Device device;
  device.has_room = false;
  const auto outcome = one.run(device);
  CHECK(outcome.ok() && outcome.value().states == 0 && outcome.value().ran_once == "no room");
}

}  // namespace

int main() {
  each_state_is_run_from_and_left_in_a_folder_of_its_own();
  a_chunk_is_hashed_once_whatever_states_hold_it();
  a_fault_from_a_state_is_the_kernels_own();
  behind_a_long_run_no_state_is_run_from();
  without_room_no_state_is_run_from();
  return test::exit_code();
}
