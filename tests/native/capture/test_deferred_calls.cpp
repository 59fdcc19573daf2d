// The order of deferred copies.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../check.hpp"
#include "capture/deferred_calls.hpp"

using namespace kerncap::capture;
using std::chrono::milliseconds;

namespace {

void a_copy_waits_for_captures_begun_before_it_and_no_others() {
  CaptureOrder order;
  const auto first = order.begin();
  const auto copy = order.now();
  const auto second = order.begin();
  CHECK(!order.passed(copy));
  order.end(second);  // the second may be over first, on another queue
  CHECK(!order.passed(copy));
  order.end(first);
  CHECK(order.passed(copy) && order.idle());
  const auto third = order.begin();
  CHECK(order.passed(copy));  // or the third, which may wait for the copy, would wait for ever
  order.end(third);
}

void calls_are_made_in_their_order_once_their_captures_are_over() {
  DeferredCalls calls(7);
  std::string made;
  CHECK(!calls.defer([&] { made += 'x'; }));   // nothing is under way: the caller makes it
  const auto first = calls.begin_capture();
  CHECK(first == 7);
  CHECK(calls.defer([&] { made += 'a'; }));
  CHECK(calls.defer([&] {
    made += 'b';
    CHECK(calls.defer([&] { made += 'd'; }));  // one that comes meanwhile is made behind the others
  }));
  const auto second = calls.begin_capture();
  CHECK(calls.defer([&] { made += 'c'; }));
  calls.end_capture(first);
  CHECK(made == "ab");
  calls.end_capture(second);
  CHECK(made == "abcd");
  CHECK(calls.begun() == 9);
  CHECK(!calls.defer([] {}));
}

void a_synchronous_call_waits_for_its_turn_or_for_the_limit() {
  DeferredCalls calls(0);
  CHECK(calls.wait_for_turn(milliseconds(60'000)));   // at once
  const auto number = calls.begin_capture();
  CHECK(!calls.wait_for_turn(milliseconds(5)));       // in vain
  std::atomic<bool> made{false};
  std::atomic<bool> waits{false};
  CHECK(calls.defer([&] { made = true; }));
  std::thread waiting([&] {
    waits = true;
    CHECK(calls.wait_for_turn(milliseconds(60'000)));
    CHECK(made);
  });
  while (!waits) std::this_thread::yield();
  calls.end_capture(number);
  waiting.join();
}

void many_threads_lose_no_call() {
  DeferredCalls calls(0);
  constexpr int k_calls = 5000;
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < k_calls; ++n) {
        if (!calls.defer([&] { ++made; })) ++made;
      }
    });
  }
  for (int n = 0; n < k_calls; ++n) calls.end_capture(calls.begin_capture());
  for (std::thread& thread : threads) thread.join();
  CHECK(made == 4 * k_calls);
}

}  // namespace

int main() {
  a_copy_waits_for_captures_begun_before_it_and_no_others();
  calls_are_made_in_their_order_once_their_captures_are_over();
  a_synchronous_call_waits_for_its_turn_or_for_the_limit();
  many_threads_lose_no_call();
  return kerncap::test::exit_code();
}
