// ROCr measures the processor's clock when it is loaded: ten times it reads another clock for a millisecond. Here it sleeps
// meanwhile, and the processor works for others. What a preload may not do: see libc_hooks.cpp.
#include <cstdint>
#include <ctime>

#include "softgpu/device/driver.hpp"
#include "softgpu/preload/real.hpp"

namespace {

using namespace kerncap::softgpu;

constexpr std::uint64_t k_close_ns = 2'000;  // between two readings of a loop
constexpr unsigned k_many_readings = 16;     // fewer may have another purpose, such as ROCr's before and after its loop
constexpr timespec k_nap{0, 200'000};

// The last reading of this clock by this thread, and how many readings up to it followed each other closely.
thread_local std::uint64_t last_ns = 0;
thread_local unsigned readings = 0;

}  // namespace

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* time) noexcept {
  KERNCAP_REAL(clock_gettime);
  const int result = real(clock, time);
  if (clock != CLOCK_MONOTONIC_RAW || result != 0 || Driver::existing() != nullptr) [[likely]] return result;
  const std::uint64_t now_ns = static_cast<std::uint64_t>(time->tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time->tv_nsec);
  readings = now_ns - last_ns < k_close_ns ? readings + 1 : 0;
  last_ns = now_ns;
  if (readings < k_many_readings) return result;
  readings = 0;
  nanosleep(&k_nap, nullptr);
  return real(clock, time);
}
