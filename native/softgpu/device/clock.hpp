// The GPU's clock: 100 MHz ticks of CLOCK_MONOTONIC_RAW, for time stamps in signals and SDMA packets.
#pragma once

#include <cstdint>
#include <ctime>

namespace kerncap::softgpu {

inline constexpr std::uint64_t k_gpu_clock_hz = 100'000'000;
inline constexpr std::uint64_t k_ns_per_tick = 1'000'000'000 / k_gpu_clock_hz;

[[nodiscard]] inline std::uint64_t read_clock_ns(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}
[[nodiscard]] inline std::uint64_t gpu_ticks() noexcept { return read_clock_ns(CLOCK_MONOTONIC_RAW) / k_ns_per_tick; }

}  // namespace kerncap::softgpu
