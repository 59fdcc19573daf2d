// Captures of a device that only writes down what it is asked: each order of events, each step that ends badly, and
// what the program frees, destroys and unmaps in the window. Also built for ThreadSanitizer.
#include <vector>

#include "stub_device.hpp"

using namespace kerncap::test;

namespace {

std::atomic<int> g_freed{0};
void count_free(void*) { ++g_freed; }

const char* const k_whole =
    "hold, drain, describe, pre, undisturbed, go, post, undisturbed again, done, go, complete, release";

void the_order_of_a_capture() {
  Rig rig;
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.given_back_in_all == 1; });
  CHECK(rig.stub.log() == k_whole);
  CHECK(rig.stub.failures == 0);
  CHECK(rig.session.next_number() == 1);
}

void without_a_post_state_the_collector_has_all_before_the_kernel() {
  Rig rig("", Stub::fails, false);
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.given_back_in_all == 1; });
  CHECK(rig.stub.log() == "hold, drain, describe, pre, undisturbed, ready, go, done, go, complete, release");
}

void a_dispatch_without_a_signal_of_the_programs() {
  Rig rig;
  rig.add(true, false);
  rig.start();
  wait_for([&] { return rig.stub.given_back_in_all == 1; });
  CHECK(rig.stub.log().find("complete") == std::string::npos);
}

void what_is_reached_first_is_taken_first() {
  Rig rig;
  const std::shared_ptr<Facts> first = rig.add(false);
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.successes == 1; });
  CHECK(!first->ended);
  CHECK(rig.stub.others_stopped == 0);
  first->reached = true;
  wait_for([&] { return rig.stub.given_back_in_all == 2; });
  CHECK(rig.stub.successes == 2);
}

void queues_that_stand_before_other_captures_are_named_to_hold() {
  Rig rig;
  std::vector<int> stopped;
  rig.stub.at_step = [&](const std::string& step) {
    if (step == "hold") stopped.push_back(rig.stub.others_stopped);
  };
  for (int i = 0; i < 3; ++i) rig.add();
  rig.add(false)->gives_back = true;
  rig.start();
  wait_for([&] { return rig.stub.successes == 3 && rig.stub.failures == 1; });
  CHECK((stopped == std::vector<int>{2, 1, 0}));
}

// A step that fails: all is let go, once, and the next capture is made.
void each_step_that_fails() {
  for (const std::string bad : k_steps) {
    if (bad == "kernel") continue;  // it never fails, it hangs
    Rig rig(bad);
    rig.add();
    rig.add();
    rig.start();
    wait_for([&] { return rig.stub.given_back_in_all == 2; });
    CHECK(rig.stub.failures == 1);
    CHECK(rig.stub.successes == 1);
    CHECK(rig.stub.log().find("complete, release, failed: bad, hold") != std::string::npos);
    CHECK(!rig.session.is_broken());
    CHECK(!rig.session.keep_until_idle(nullptr, count_free));
  }
}

void each_wait_that_takes_too_long() {
  for (const std::string bad : k_steps) {
    if (!can_hang(bad)) continue;
    Rig rig(bad, Stub::hangs, true, milliseconds(50));
    rig.add();
    rig.add();
    rig.start();
    wait_for([&] { return rig.stub.given_back_in_all == 2; });
    // A copy that hangs: the way on which it went may be blocked for ever.
    CHECK(rig.session.is_broken() == breaks(bad));
    CHECK(rig.stub.successes == (breaks(bad) ? 0 : 1));
    CHECK(rig.stub.failures == (breaks(bad) ? 2 : 1));
    const std::string hanging = "release, failed: timeout, go, complete, release, "
                                "failed: an earlier capture left the copy queue hanging";
    CHECK((rig.stub.log().find(hanging) != std::string::npos) == breaks(bad));
  }
}

// The collector takes nothing for a while: no copy hangs, and the next capture is made.
void each_step_in_which_the_collector_stalls() {
  for (const std::string bad : {"describe", "pre", "post"}) {
    Rig rig(bad, Stub::stalls);
    rig.add();
    rig.add();
    rig.start();
    wait_for([&] { return rig.stub.given_back_in_all == 2; });
    CHECK(!rig.session.is_broken());
    CHECK(rig.stub.failures == 1 && rig.stub.successes == 1);
    CHECK(rig.stub.log().find("failed: stalled, hold") != std::string::npos);
  }
}

void nothing_is_begun_while_the_collector_does_not_listen() {
  Rig rig;
  rig.stub.hears = false;
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.given_back_in_all == 1; });
  CHECK(rig.stub.log() == "go, complete, release, failed: the collector took no more data");
  rig.stub.hears = true;
  rig.add();
  wait_for([&] { return rig.stub.successes == 1; });
}

void a_kernel_that_hangs_stalls_no_later_capture() {
  Rig rig("kernel", Stub::hangs, true, milliseconds(50));
  const std::shared_ptr<Facts> first = rig.add();
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.successes == 1; });
  CHECK(rig.stub.failures == 1);
  CHECK(rig.stub.log().find("failed: the kernel did not end in time") != std::string::npos);
  // The program's signal is completed whenever the kernel ends, not before.
  CHECK(first->completed == 0);
  CHECK(first->released == 1);
  rig.session.settle(milliseconds(1));
  CHECK(first->completed == 0);
  first->ended = first->left = true;
  wait_for([&] { return rig.stub.given_back_in_all == 2; });
  CHECK(first->completed == 1);
}

void what_is_never_reached_fails_in_its_time() {
  Rig rig("", Stub::fails, true, milliseconds(20));
  rig.add(false);
  rig.start();
  wait_for([&] { return rig.stub.failures == 1; });
  CHECK(rig.stub.log() == "go, complete, release, failed: work before the dispatch did not end in time");
  wait_for([&] { return rig.stub.given_back_in_all == 1; });
}

void a_queue_that_is_given_back_before_its_dispatch_leaves_nothing() {
  Rig rig;
  const std::shared_ptr<Facts> it = rig.add(false);
  it->hangs = true;
  it->gives_back = true;
  rig.start();
  wait_for([&] { return rig.stub.failures == 1; });
  CHECK(rig.stub.given_back_in_all == 0);
  it->destroyed = true;
  wait_for([&] { return rig.stub.given_back_in_all == 1; });
  CHECK(rig.stub.log().find("complete") == std::string::npos);
}

// In each step: the kernel has run or not, what is ours of the queue is given back, once, and the next capture is made.
void a_queue_that_is_destroyed_in_each_step() {
  for (const std::string when : k_steps) {
    Rig rig(when == "kernel" ? "kernel" : "", Stub::fails, true, milliseconds(50));
    std::shared_ptr<Facts> first;
    rig.stub.at_step = [&](const std::string& step) {
      if (step == when) first->gives_back = first->destroyed = true;
    };
    first = rig.add();
    rig.add();
    rig.start();
    wait_for([&] { return rig.stub.given_back_in_all == 2; });
    CHECK(first->given_back == 1);
    CHECK(first->completed == (when == "kernel" ? 0 : 1));
    CHECK(rig.stub.successes == (when == "kernel" ? 1 : 2));
  }
}

void a_collector_that_goes_lets_all_go() {
  for (const std::string when : k_steps) {
    Rig rig(when == "kernel" ? "kernel" : "");
    rig.stub.at_step = [&](const std::string& step) {
      if (step == when) rig.stub.alive = rig.stub.wanted = false;
    };
    const std::shared_ptr<Facts> first = rig.add();
    const std::shared_ptr<Facts> second = rig.add(false);
    rig.start();
    wait_for([&] { return rig.stub.log().find("failed: the collector wants no more captures") != std::string::npos; });
    first->ended = first->left = true;
    wait_for([&] { return rig.stub.given_back_in_all == 2; });
    CHECK(first->released == 1 && second->released == 1);
  }
}

void what_is_freed_in_the_window_is_kept_until_it_closes() {
  for (const std::string when : k_steps) {
    Rig rig(when == "kernel" ? "kernel" : "");
    g_freed = 0;
    std::atomic<int> kept{0};
    rig.stub.at_step = [&](const std::string& step) {
      if (step != when) return;
      // From another thread, as a program does.
      std::thread([&] { kept += rig.session.keep_until_idle(&kept, count_free); }).join();
      CHECK(g_freed == 0);
    };
    const std::shared_ptr<Facts> first = rig.add();
    rig.start();
    wait_for([&] { return rig.stub.stuck || rig.stub.given_back_in_all == 1; });
    if (rig.stub.stuck) first->ended = first->left = true;
    wait_for([&] { return rig.stub.given_back_in_all == 1; });
    const bool is_open = when != "hold" && when != "drain";
    CHECK(kept == is_open);
    CHECK(g_freed == is_open);
  }
}

void an_allocation_waits_for_what_is_kept() {
  Rig rig;
  g_freed = 0;
  std::atomic<int> waited{0}, in_vain{0};
  std::thread allocation;
  rig.stub.at_step = [&](const std::string& step) {
    if (step != "pre") return;
    in_vain += rig.session.wait_for_kept(rig.session.given_back());   // nothing is kept yet: no wait
    (void)rig.session.keep_until_idle(&waited, count_free);
    allocation = std::thread([&, before = rig.session.given_back()] { waited += rig.session.wait_for_kept(before) && g_freed == 1; });
  };
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.given_back_in_all == 1; });
  allocation.join();
  CHECK(in_vain == 0 && waited == 1 && rig.stub.successes == 1);
  // The window has closed between the allocation and the wait.
  CHECK(rig.session.wait_for_kept(0));
}

void copies_are_deferred_from_the_submission_on() {
  Rig rig;
  std::atomic<int> made{0};
  const std::shared_ptr<Facts> first = rig.add(false);
  CHECK(rig.session.defer([&] { ++made; }));
  rig.start();
  CHECK(made == 0);
  first->reached = true;
  (void)rig.session.wait_for_turn();
  CHECK(made == 1);
  CHECK(rig.stub.log().find("release") != std::string::npos);
}

void what_cannot_be_kept_waits() {
  Rig rig("pre", Stub::hangs, true, milliseconds(200));
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.stuck.load(); });
  (void)rig.session.wait_until_idle();
  CHECK(rig.stub.log().find("release") != std::string::npos);
}

// A capture may take longer than each of its waits. What it would read next is about to go, or to change.
void a_capture_fails_where_the_program_can_wait_no_longer() {
  for (const bool is_copy : {false, true}) {
    for (const char* when : {"pre", "post"}) {
      Rig rig("", Stub::fails, true, milliseconds(20));
      rig.stub.at_step = [&](const std::string& step) {
        if (step == when) wait_for([&] { return rig.session.is_overtaken(); });
      };
      rig.add();
      rig.start();
      wait_for([&] { return rig.stub.log().find(when) != std::string::npos; });
      {
        const Session::Call call = is_copy ? rig.session.wait_for_turn() : rig.session.wait_until_idle();
        CHECK(rig.stub.log().find("release") != std::string::npos);
        rig.add();   // begins while the program's call is made
        wait_for([&] { return rig.stub.failures == 2; });
      }
      CHECK(rig.stub.log().find("failed: a call of the program") != std::string::npos);
      CHECK(rig.stub.successes == 0);
      rig.stub.at_step = nullptr;
      rig.add();
      wait_for([&] { return rig.stub.successes == 1; });
    }
  }
}

void a_copy_that_hangs_is_known_also_where_the_program_waits_no_longer() {
  Rig rig("pre", Stub::hangs, true, milliseconds(20));
  rig.stub.at_step = [&](const std::string& step) {
    if (step == "pre") wait_for([&] { return rig.session.is_overtaken(); });
  };
  rig.add();
  rig.start();
  wait_for([&] { return rig.stub.log().find("pre") != std::string::npos; });
  (void)rig.session.wait_until_idle();
  wait_for([&] { return rig.stub.failures == 1; });
  CHECK(rig.stub.log().find("failed: a call of the program") != std::string::npos);
  CHECK(rig.session.is_broken());
}

// Programs' threads do everything at once; nothing is lost, and nothing comes twice.
void many_threads() {
  constexpr int k_dispatches = 300;
  Rig rig;
  g_freed = 0;
  std::atomic<bool> over{false};
  std::atomic<int> kept{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      while (!over) {
        if (i < 3) kept += rig.session.keep_until_idle(&kept, count_free);
        if (i == 3) (void)rig.session.wait_until_idle();
        if (i == 4) rig.session.settle(milliseconds(1));
        std::this_thread::yield();
      }
    });
  }
  rig.start();
  for (int i = 0; i < k_dispatches; ++i) rig.add();
  wait_for([&] { return rig.stub.given_back_in_all == k_dispatches; });
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(rig.stub.successes == k_dispatches);
  CHECK(g_freed == kept);
}

}  // namespace

int main() {
  the_order_of_a_capture();
  without_a_post_state_the_collector_has_all_before_the_kernel();
  a_dispatch_without_a_signal_of_the_programs();
  what_is_reached_first_is_taken_first();
  queues_that_stand_before_other_captures_are_named_to_hold();
  each_step_that_fails();
  each_wait_that_takes_too_long();
  each_step_in_which_the_collector_stalls();
  nothing_is_begun_while_the_collector_does_not_listen();
  a_kernel_that_hangs_stalls_no_later_capture();
  what_is_never_reached_fails_in_its_time();
  a_queue_that_is_given_back_before_its_dispatch_leaves_nothing();
  a_queue_that_is_destroyed_in_each_step();
  a_collector_that_goes_lets_all_go();
  what_is_freed_in_the_window_is_kept_until_it_closes();
  copies_are_deferred_from_the_submission_on();
  an_allocation_waits_for_what_is_kept();
  what_cannot_be_kept_waits();
  a_capture_fails_where_the_program_can_wait_no_longer();
  a_copy_that_hangs_is_known_also_where_the_program_waits_no_longer();
  many_threads();
  return kerncap::test::exit_code();
}
