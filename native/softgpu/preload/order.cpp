// Lets a program choose whose turn it is among waves while it runs: the environment says it for a whole process only.
#include <cstdint>

#include "softgpu/device/driver.hpp"

// seed: of the adversarial schedule, which is the same for each dispatch from now on; null: the schedule of the settings. Does
// nothing in a program that has not used the GPU yet.
extern "C" __attribute__((visibility("default"))) void kerncap_softgpu_choose_order(const std::uint64_t* seed) noexcept {
  using kerncap::softgpu::Driver;
  using kerncap::softgpu::Schedule;
  Driver* driver = Driver::existing();
  if (driver == nullptr) return;
  const Schedule schedule{.is_adversarial = true, .seed = seed != nullptr ? *seed : 0, .counts_dispatches = false};
  driver->choose_schedule(seed != nullptr ? &schedule : nullptr);
}
