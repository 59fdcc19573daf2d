// A replayer that serves one replay after the other: what it tells, in which order it gives things back, and when it ends.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "../check.hpp"
#include "../core/scratch_store.hpp"
#include "stub_driver.hpp"

using namespace kerncap;

namespace {

// Writes down what is asked of it.
class Recorder final : public test::StubDriver {
 public:
  Recorder() : StubDriver({}, {.holds_with_pages = false}) {}

  void start_early(std::uint32_t device, bool timed) override {
    events += "start" + std::to_string(device) + (timed ? "t " : " ");
  }
  core::Result<void> open(const replay::Plan& plan) override {
    events += plan.timed ? "open-timed " : "open ";
    return {};
  }
  core::Result<std::unique_ptr<replay::Code>> load(std::span<const std::byte>, const std::string&,
                                                   std::optional<std::uint64_t>) override {
    events += "load ";
    return std::unique_ptr<replay::Code>(std::make_unique<Loaded>(events));
  }
  core::Result<replay::Timing> launch(replay::Code&, const replay::Launch&) override {
    events += "run ";
    if (++runs == faults_in) return core::Error{core::ErrorCode::device, "the kernel accessed 0x0"};
    return replay::Timing{42};
  }
  core::Result<void> give_back() override {
    events += "back ";
    if (--may_give_back == 0) return core::Error{core::ErrorCode::device, "something is left"};
    return {};
  }

  std::string events;
  int runs = 0;
  int faults_in = 0;
  int may_give_back = 0;

 private:
  struct Loaded final : replay::Code {
    explicit Loaded(std::string& all) : events(all) {}
    ~Loaded() override { events += "unload "; }
    std::string& events;
  };
};

// The stage's end of the socket. All of its words are there before the replayer looks.
struct Fixture {
  Fixture() {
    (void)scratch.open();
    const std::string store = scratch.path().string();
    std::ofstream(plan) << "kcplan 2\nstore " << store << "\ncode baseline " << store
                        << "/format\nsymbol k\nkernel_device 0\nkernarg 0102\n";
  }
  void send(const std::string& text) { words += text; }
  // The words of one replay, counted.
  void ask(std::initializer_list<std::string> more) {
    std::string text = plan + '\0' + "--report" + '\0' + scratch.path().string() + "/report" + '\0';
    for (const std::string& word : more) text += word + '\0';
    const auto bytes = static_cast<std::uint32_t>(text.size());
    send(std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + text);
  }
  // The exit code; what was told is kept.
  int run(const char* how) {
    int ends[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(::write(ends[0], words.data(), words.size()) == static_cast<ssize_t>(words.size()));
    ::shutdown(ends[0], SHUT_WR);
    const int before = ::dup(STDIN_FILENO);
    ::dup2(ends[1], STDIN_FILENO);
    ::close(ends[1]);
    char name[] = "kc-replay-stub";
    std::string word = how;
    char device[] = "3";
    char* pointers[] = {name, word.data(), device, nullptr};
    const int code = replay::replay_main(3, pointers, driver);
    ::dup2(before, STDIN_FILENO);
    ::close(before);
    char byte = 0;
    while (::read(ends[0], &byte, 1) == 1) told += static_cast<char>('0' + byte);
    ::close(ends[0]);
    return code;
  }

  test::ScratchStore scratch;
  std::string plan = scratch.path().string() + "/plan";
  std::string words;
  std::string told;
  Recorder driver;
};

void one_replay_comes_after_the_other_and_each_gives_back_first() {
  Fixture fixture;
  fixture.ask({"--untimed"});
  fixture.ask({"--untimed", "--iterations", "2"});
  CHECK(fixture.run("--keep") == 0);
  CHECK(fixture.driver.events == "start3 open load run unload back open load run run unload back ");
  CHECK(fixture.told == "0101");
}

void options_of_one_replay_are_not_those_of_the_next() {
  Fixture fixture;
  fixture.ask({"--no-compare", "--iterations", "3"});
  fixture.ask({});
  CHECK(fixture.run("--keep-timed") == 0);
  CHECK(fixture.driver.events == "start3t open-timed load run run run unload back open-timed load run unload back ");
}

void a_fault_ends_it() {
  Fixture fixture;
  fixture.ask({});
  fixture.ask({});
  fixture.ask({});
  fixture.driver.faults_in = 2;
  CHECK(fixture.run("--keep") == 4);
  CHECK(fixture.driver.events == "start3 open-timed load run unload back open-timed load run unload ");
  CHECK(fixture.told == "014");
}

void what_cannot_be_given_back_ends_it() {
  Fixture fixture;
  fixture.ask({});
  fixture.ask({});
  fixture.ask({});
  fixture.driver.may_give_back = 2;
  CHECK(fixture.run("--keep") == 0);
  CHECK(fixture.driver.runs == 2 && fixture.told == "010");  // the second replay counts
}

void a_plan_that_cannot_be_read_ends_it() {
  Fixture fixture;
  std::ofstream(fixture.plan) << "kcplan 1\n";
  fixture.ask({});
  fixture.ask({});
  CHECK(fixture.run("--keep") != 0);
  CHECK(fixture.driver.events == "start3 " && fixture.told.size() == 1);
}

void words_that_are_cut_off_are_not_carried_out() {
  Fixture fixture;
  fixture.ask({});
  fixture.words.pop_back();
  CHECK(fixture.run("--keep") == 0);
  CHECK(fixture.driver.events == "start3 " && fixture.told.empty());
  Fixture huge;
  huge.send("\xff\xff\xff\x7f" + std::string(8, 'x'));
  CHECK(huge.run("--keep") == 0);
  CHECK(huge.driver.runs == 0);
}

void one_that_is_not_kept_serves_once_and_gives_nothing_back() {
  Fixture fixture;
  fixture.send(fixture.plan + '\0');
  CHECK(fixture.run("--standby") == 0);
  CHECK(fixture.driver.events == "start3 open-timed load run unload ");
  CHECK(fixture.told == "0");
  Fixture dismissed;
  CHECK(dismissed.run("--standby") == 0);
  CHECK(dismissed.driver.events == "start3 " && dismissed.told.empty());
}

}  // namespace

int main() {
  one_replay_comes_after_the_other_and_each_gives_back_first();
  options_of_one_replay_are_not_those_of_the_next();
  a_fault_ends_it();
  what_cannot_be_given_back_ends_it();
  a_plan_that_cannot_be_read_ends_it();
  words_that_are_cut_off_are_not_carried_out();
  one_that_is_not_kept_serves_once_and_gives_nothing_back();
  return test::exit_code();
}
