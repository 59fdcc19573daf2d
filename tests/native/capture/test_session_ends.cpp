// The end of the program, of the runtime, and a fork, in each state of a capture. Also built for ThreadSanitizer.
#include <sys/wait.h>
#include <unistd.h>

#include "stub_device.hpp"

using namespace kerncap::test;

namespace {

void free_nothing(void*) {}

bool adds(Session& session) {
  std::unique_ptr<Dispatch> given = std::make_unique<StubDispatch>();
  const bool added = session.add(given);
  CHECK(added == (given == nullptr));   // what is not taken stays the caller's
  return added;
}

void the_end_comes_before_the_first_capture() {
  Rig rig;
  CHECK(rig.session.end(milliseconds(1)));   // its thread never ran
  CHECK(rig.session.end(milliseconds(1)));
  CHECK(!adds(rig.session));
  CHECK(rig.stub.log().empty());
}

void the_end_comes_while_nothing_is_under_way() {
  Rig rig;
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.given_back_in_all == 1; });
  CHECK(rig.session.end(std::chrono::seconds(60)));
  CHECK(!adds(rig.session));
}

void the_end_comes_in_each_state() {
  for (const std::string when : k_steps) {
    Rig rig(when, Stub::hangs);
    rig.add();
    rig.add(false);
    rig.start();
    wait_for([&] { return rig.stub.stuck.load(); });
    std::thread([&] { CHECK(rig.session.end(std::chrono::seconds(60))); }).join();
    CHECK(!rig.session.keep_until_idle(nullptr, free_nothing));
    CHECK(!adds(rig.session));
    CHECK(!rig.session.defer([] {}));
    // Of both all was let go; the kernel that hangs keeps what it may still use.
    const std::string log = rig.stub.log();
    CHECK(log.find("release") != log.rfind("release"));
    CHECK(rig.stub.given_back_in_all == (when == "kernel" ? 1 : 2));
    const int touched = rig.stub.touched;
    rig.session.settle(milliseconds(2));
    CHECK(rig.stub.touched == touched);
  }
}

// From then on no capture begins, though the runtime is still there.
void no_capture_begins_once_the_end_has_begun() {
  Rig rig;
  const std::shared_ptr<Facts> first = rig.add(false);
  rig.session.begin_end();
  rig.start();
  first->reached = true;
  rig.thread.join();
  CHECK(rig.stub.log().empty());
  CHECK(rig.session.end(milliseconds(1)));
  CHECK(rig.stub.log() == "go, complete, release");
}

void the_end_waits_for_a_moment_until_other_queues_have_gone_on() {
  Rig rig;
  rig.stub.others_rest = false;
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.given_back_in_all == 1; });
  const auto begun = Clock::now();
  CHECK(rig.session.end(std::chrono::seconds(60)));
  CHECK(Clock::now() - begun >= k_settle_limit);
}

void a_thread_that_is_late_touches_nothing_any_more() {
  for (const std::string when : k_steps) {
    if (!can_hang(when)) continue;
    Rig rig(when, Stub::hangs_on);
    rig.add();
    rig.start();
    wait_for([&] { return rig.stub.stuck.load(); });
    CHECK(!rig.session.end(milliseconds(1)));
    const int touched = rig.stub.touched;
    rig.stub.unstick = true;
    rig.thread.join();
    CHECK(rig.stub.touched == touched);
  }
}

// Exit handlers run while the runtime is there: what hangs stays, what has ended is completed.
void exit_handlers_settle_in_each_state() {
  for (const std::string when : k_steps) {
    Rig rig(when, Stub::hangs);
    const std::shared_ptr<Facts> first = rig.add();
    rig.start();
    wait_for([&] { return rig.stub.stuck.load(); });
    rig.session.settle(milliseconds(2));
    CHECK(!rig.session.ends());
    if (when == "kernel") CHECK(first->completed == 0);
  }
}

void a_forked_child_goes_its_own_way_in_each_state() {
  for (const std::string when : k_steps) {
    Rig rig(when, Stub::hangs);
    rig.add();
    rig.start();
    wait_for([&] { return rig.stub.stuck.load(); });
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      rig.session.abandon_in_child();
      const bool kept = rig.session.keep_until_idle(nullptr, free_nothing);
      (void)rig.session.wait_until_idle();
      rig.session.settle(milliseconds(1000));
      std::unique_ptr<Dispatch> nothing;
      const bool taken = rig.session.add(nothing);
      ::_exit(!kept && !taken && rig.session.end(milliseconds(1000)) ? 0 : 1);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child && status == 0);
    CHECK(!rig.session.ends());
  }
}

}  // namespace

int main() {
  the_end_comes_before_the_first_capture();
  the_end_comes_while_nothing_is_under_way();
  the_end_comes_in_each_state();
  no_capture_begins_once_the_end_has_begun();
  the_end_waits_for_a_moment_until_other_queues_have_gone_on();
  a_thread_that_is_late_touches_nothing_any_more();
  exit_handlers_settle_in_each_state();
  a_forked_child_goes_its_own_way_in_each_state();
  return kerncap::test::exit_code();
}
