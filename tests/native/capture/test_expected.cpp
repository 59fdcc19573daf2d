// The recorder in the program's Python asks before each launch whether a capture may follow.
#include "capture/expected.hpp"

#include "../check.hpp"

using namespace kerncap::capture;

namespace {

void the_first_dispatch_is_expected_until_it_was_seen() {
  const Rule rule{.first = 0, .every = 1, .count = 1};
  CHECK(is_expected(rule, 0));
  CHECK(!is_expected(rule, 1));
}

void a_later_dispatch_is_expected_shortly_before_it() {
  const Rule rule{.first = 100, .every = 50, .count = 2};
  CHECK(!is_expected(rule, 0) && !is_expected(rule, 83));
  CHECK(is_expected(rule, 84) && is_expected(rule, 100));
  CHECK(!is_expected(rule, 101) && !is_expected(rule, 133));
  CHECK(is_expected(rule, 134) && is_expected(rule, 150));
  CHECK(!is_expected(rule, 151) && !is_expected(rule, 1000));
}

void without_a_collector_nothing_is_expected() { CHECK(kerncap_expects_capture() == 0); }

}  // namespace

int main() {
  the_first_dispatch_is_expected_until_it_was_seen();
  a_later_dispatch_is_expected_shortly_before_it();
  without_a_collector_nothing_is_expected();
  return 0;
}
