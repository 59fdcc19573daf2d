// What only a CUDA launch has, as a plan has it.
#include <string>

#include "../check.hpp"
#include "cuda/driver/launch_settings.hpp"

using namespace kerncap;

namespace {

bool reads(cuda::LaunchSettings& settings, const std::string& text) {
  replay::PlanLine line(text);
  const std::string_view what = line.word();
  return settings.read_line(what, line) && line.ok;
}

void what_a_launch_asked_for_is_kept() {
  cuda::LaunchSettings settings;
  CHECK(settings.carveout < 0 && settings.cluster[0] == 0);
  CHECK(reads(settings, "limit stack_limit 131072"));
  CHECK(reads(settings, "carveout 50"));
  CHECK(reads(settings, "attribute 8 " + std::string(126, '0') + "ff"));
  CHECK(reads(settings, "cluster 4 2 1"));
  CHECK(settings.limits.at("stack_limit") == 131072 && settings.carveout == 50);
  CHECK(settings.attributes.at(8).back() == std::byte{0xff});
  CHECK(settings.cluster[0] == 4 && settings.cluster[1] == 2 && settings.cluster[2] == 1);
}

void a_line_that_is_not_understood_is_refused() {
  cuda::LaunchSettings settings;
  for (const char* bad : {"attribute 8 00ff", "attribute 8", "limit", "limit stack_limit", "carveout many", "cluster 1 1",
                          "slot baseline 0 8 hidden_heap_v1"}) {
    CHECK(!reads(settings, bad));
  }
}

}  // namespace

int main() {
  what_a_launch_asked_for_is_kept();
  a_line_that_is_not_understood_is_refused();
  return test::exit_code();
}
