// The whole command line of a replayer, with a driver that has a word of its own.
#include <unistd.h>

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "../check.hpp"
#include "../core/scratch_store.hpp"
#include "stub_driver.hpp"

using namespace kerncap;

namespace {

class OneSwitch final : public test::StubDriver {
 public:
  OneSwitch() : StubDriver({}, {.holds_with_pages = false, .switches = {{"--own-way", &is_on}}}) {}
  core::Result<void> open(const replay::Plan& plan) override {
    was_timed = plan.timed;
    if (refuses) return core::Error{core::ErrorCode::unsupported, "another GPU"};
    m_opened = {"a \"stub\"", "isa1", "runtime 2", {4, 4096}, {"a stand-in"}, {1000, 64, 2, 500}};
    return {};
  }
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte>, const std::string&,
                                                   std::optional<std::uint64_t>) override {
    return std::make_unique<replay::Code>();
  }
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch& launch) override {
    kernarg_bytes = launch.kernarg.size();
    if (faults) return core::Error{core::ErrorCode::device, "the kernel accessed 0x0"};
    return replay::Timing{42};
  }

  bool is_on = false;
  bool refuses = false;
  bool faults = false;
  bool was_timed = false;
  std::size_t kernarg_bytes = 0;
};

struct Fixture {
  Fixture() {
    (void)scratch.open();
    const std::string store = scratch.path().string();
    std::ofstream(plan) << "kcplan 2\nstore " << store << "\ncode baseline " << store
                        << "/format\nsymbol k\nkernel_device 0\nkernarg 0102\nvariant_kernarg 8\n";
  }
  // The exit code; the report is kept.
  int run(std::initializer_list<std::string> more) {
    std::vector<std::string> words{"kc-replay-stub", "--report", scratch.path().string() + "/report"};
    words.insert(words.end(), more);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const int code = replay::replay_main(static_cast<int>(words.size()), pointers.data(), driver);
    std::ifstream file(words[2]);
    report = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return code;
  }
  [[nodiscard]] bool says(const std::string& text) const { return report.find(text) != std::string::npos; }

  test::ScratchStore scratch;
  std::string plan = scratch.path().string() + "/plan";
  std::string report;
  OneSwitch driver;
};

void a_run_is_reported_with_its_device() {
  Fixture fixture;
  CHECK(fixture.run({fixture.plan, "--iterations", "2"}) == 0);
  CHECK(!fixture.driver.is_on && fixture.driver.was_timed && fixture.driver.kernarg_bytes == 2);
  CHECK(fixture.says("\"device\":{\"name\":\"a \\\"stub\\\"\",\"isa\":\"isa1\",\"memory_bytes_per_s\":1000,\"cache_bytes\":64,"
                     "\"compute_units\":2,\"clock_hz\":500},\"runtime_version\":\"runtime 2\""));
  CHECK(fixture.says("\"baseline_ns\":[42,42]") && fixture.says("\"notes\":[\"a stand-in\"]"));
}

void what_came_back_as_another_kind_is_told_where_times_count() {
  Fixture fixture;
  CHECK(fixture.run({fixture.plan, "--untimed"}) == 0);
  CHECK(!fixture.driver.was_timed && fixture.says("\"notes\":[]"));
}

// Its parent was killed before it asked for a signal at that: nobody reads the report, or ends a kernel that hangs.
void a_replayer_whose_parent_is_gone_runs_nothing() {
  Fixture fixture;
  CHECK(fixture.run({fixture.plan, "--parent", std::to_string(getppid() + 1)}) == 4);
  CHECK(fixture.driver.kernarg_bytes == 0 && fixture.report.empty());
  CHECK(fixture.run({fixture.plan, "--parent", std::to_string(getppid())}) == 0);
}

void a_word_of_the_back_end_is_its_own() {
  Fixture fixture;
  CHECK(fixture.run({"--own-way", fixture.plan}) == 0);
  CHECK(fixture.driver.is_on);
  Fixture other;
  CHECK(other.run({"--hip-launch", other.plan}) == 2);  // of another back end
  CHECK(other.report.empty());
}

void a_variant_that_takes_more_gets_zeros() {
  Fixture fixture;
  std::ofstream(fixture.plan, std::ios::app) << "code variant " << fixture.scratch.path().string() << "/format\n";
  CHECK(fixture.run({fixture.plan, "--no-compare"}) == 0);
  CHECK(fixture.driver.kernarg_bytes == 8);
}

void what_ends_it_has_an_exit_code_of_its_own() {
  Fixture fixture;
  fixture.driver.faults = true;
  CHECK(fixture.run({fixture.plan}) == 4);
  CHECK(fixture.says("\"outcome\":\"faulted\",\"message\":\"the kernel accessed 0x0\""));
  fixture.driver.refuses = true;
  CHECK(fixture.run({fixture.plan}) == 6);
  CHECK(fixture.says("\"outcome\":\"failed\",\"code\":\"unsupported\",\"message\":\"another GPU\""));
  std::ofstream(fixture.plan, std::ios::app) << "own 5\n";
  CHECK(fixture.run({fixture.plan}) == 2);
  CHECK(fixture.says("not understood: own 5"));
}

}  // namespace

int main() {
  a_run_is_reported_with_its_device();
  what_came_back_as_another_kind_is_told_where_times_count();
  a_replayer_whose_parent_is_gone_runs_nothing();
  a_word_of_the_back_end_is_its_own();
  a_variant_that_takes_more_gets_zeros();
  what_ends_it_has_an_exit_code_of_its_own();
  return test::exit_code();
}
