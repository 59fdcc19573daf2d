// Lets a program hear of what waves write, before they do.
#include "core/write_watch.hpp"

#include "softgpu/device/driver.hpp"

// `watch` hears of writes until the next call, and is told again what earlier ones were told. When this returns, the one
// before is no longer used. Not to be called by before_write().
extern "C" __attribute__((visibility("default"))) bool kerncap_softgpu_watch_writes(const kerncap::core::WriteWatch* watch) noexcept {
  kerncap::softgpu::Driver* const driver = kerncap::softgpu::Driver::existing();
  if (driver == nullptr) return false;
  for (const auto& gpu : driver->gpus()) gpu->space.watch_writes(watch);
  return true;
}
