// Nanoseconds of the clock that the software GPU's own clocks are derived from.
#pragma once

#include <cstdint>
#include <ctime>

namespace kerncap::softgpu {

[[nodiscard]] inline std::uint64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace kerncap::softgpu
