// The course of a capture on the thread of who launches, over a device that only writes down what it is asked: the order
// of the steps, each that ends badly, and what is told of it.
#include "stub_device.hpp"

using namespace kerncap::test;

namespace {

struct Taken {
  std::string log;
  Result<void> result;
  bool is_broken;
  Cost cost;
};

// As a back end does whose launch waits in its callback: nothing waits beside it.
Taken take(Stub& stub, bool with_post = true, Limit limit = Limit(60'000)) {
  Course course(stub, stub, {limit, with_post});
  StubDispatch dispatch;
  Result<void> taken = course.hold(dispatch, {});
  if (taken) taken = course.before(dispatch);
  if (taken) stub.go(dispatch);
  if (taken) taken = course.after(dispatch);
  return {stub.log(), taken, course.is_broken(), dispatch.cost};
}

void the_order_of_the_steps() {
  Stub stub;
  const Taken taken = take(stub);
  CHECK(taken.result.ok() && stub.successes == 1);
  CHECK(taken.log == "hold, drain, describe, pre, undisturbed, go, post, undisturbed again, done");
}

void without_a_post_state_all_is_told_before_the_kernel() {
  Stub stub;
  CHECK(take(stub, false).log == "hold, drain, describe, pre, undisturbed, ready, go, done");
}

void what_the_device_keeps_is_handed_over_when_nothing_has_disturbed_it() {
  Stub stub;
  stub.keeps_states = true;
  CHECK(take(stub).log == "hold, drain, describe, pre, undisturbed, go, post, undisturbed again, hand over, done");
}

void what_is_sent_later_is_not_told_yet() {
  Stub stub;
  stub.keeps_states = stub.sends_later = true;
  const Taken taken = take(stub);
  CHECK(taken.result.ok() && stub.successes == 0 && taken.log.ends_with("undisturbed again, hand over"));
  CHECK(taken.cost.held_ns != 0 && taken.cost.duration_ns == 7 && taken.cost.copied_bytes == 11);
}

void each_step_that_ends_badly_is_the_last() {
  for (const std::string bad : {"hold", "drain", "describe", "pre", "undisturbed", "post", "undisturbed again", "hand over"}) {
    for (const Stub::How how : {Stub::fails, Stub::hangs}) {
      Stub stub;
      stub.keeps_states = true;
      stub.bad = bad;
      stub.how = how;
      const Taken taken = take(stub, true, Limit(5));
      const bool in_vain = how == Stub::hangs && can_hang(bad) && bad != "hand over";
      CHECK(!taken.result && taken.log.ends_with(bad) && stub.successes == 0);
      if (bad != "hand over") CHECK(taken.result.error().message == (in_vain ? "timeout" : "bad"));
      CHECK(taken.is_broken == (in_vain && breaks(bad)));
    }
  }
}

void a_collector_that_is_gone_is_told_nothing_more() {
  for (const bool with_post : {true, false}) {
    Stub stub;
    stub.alive = false;
    const Taken taken = take(stub, with_post);
    CHECK(!taken.result && taken.result.error().message == "the collector is gone");
    CHECK(taken.log.ends_with(with_post ? "done" : "ready"));
  }
}

// As for what a graph runs, which takes both states by itself.
void a_capture_may_be_finished_alone() {
  Stub stub;
  Course course(stub, stub, {});
  StubDispatch dispatch;
  CHECK(course.hold(dispatch, {}).ok());
  dispatch.cost.duration_ns = 7;
  dispatch.cost.copied_bytes = 11;
  CHECK(course.finish(dispatch).ok());
  CHECK(stub.log() == "hold, drain, done");
}

}  // namespace

int main() {
  the_order_of_the_steps();
  without_a_post_state_all_is_told_before_the_kernel();
  what_the_device_keeps_is_handed_over_when_nothing_has_disturbed_it();
  what_is_sent_later_is_not_told_yet();
  each_step_that_ends_badly_is_the_last();
  a_collector_that_is_gone_is_told_nothing_more();
  a_capture_may_be_finished_alone();
  return kerncap::test::exit_code();
}
