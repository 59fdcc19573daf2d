// An autotuner's trials are told from other launches: by now, or later by their times.
#include "capture/trials.hpp"

#include <memory>

#include "../check.hpp"
#include "capture/selection.hpp"

using namespace kerncap::capture;

namespace {

std::uint64_t g_now = 0;

void a_trial_may_hold_others() {
  CHECK(!in_trial());
  kerncap_begin_trial();
  kerncap_begin_trial();
  kerncap_end_trial();
  CHECK(in_trial());
  kerncap_end_trial();
  CHECK(!in_trial());
}

void trials_have_no_number_among_the_dispatches_that_match() {
  const auto control = std::make_unique<Control>();
  kerncap::capture::Cases cases;
  Rule rule{};
  rule.count = rule.every = 1;
  const Shape shape{{64, 1, 1}, {64, 1, 1}};
  kerncap_begin_trial();
  CHECK(!take(rule, *control, cases, 0, shape) && !take(rule, *control, cases, 0, shape));
  kerncap_end_trial();
  CHECK(control->trials[0] == 2 && control->matched[0] == 0);
  CHECK(take(rule, *control, cases, 0, shape) == 0u && !take(rule, *control, cases, 0, shape));
  CHECK(control->trials[0] == 2 && control->matched[0] == 2);
}

void times_tell_afterwards_what_a_trial_was() {
  keep_trial_times([]() noexcept { return g_now; });
  for (const std::uint64_t begin : {100, 200}) {
    g_now = begin;
    kerncap_begin_trial();
    g_now = begin + 50;
    kerncap_end_trial();
  }
  for (const std::uint64_t time : {100, 120, 150, 200, 250}) CHECK(was_in_trial(time));
  for (const std::uint64_t time : {99, 151, 199, 251}) CHECK(!was_in_trial(time));
  g_now = 300;
  kerncap_begin_trial();
  CHECK(was_in_trial(310) && !was_in_trial(299));
  kerncap_end_trial();
}

}  // namespace

int main() {
  a_trial_may_hold_others();
  trials_have_no_number_among_the_dispatches_that_match();
  times_tell_afterwards_what_a_trial_was();
  return 0;
}
