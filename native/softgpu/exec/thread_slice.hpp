// How long the calling thread runs at a stretch while others want its core. A program that waits for the GPU often
// spins, with a slice of some milliseconds, and the threads that it waits for would not get a core before the slice
// ends. Linux lets a thread that asks for shorter slices run as soon as it is woken, and gives it no more time in all.
// Older kernels (before 6.12) ignore it.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace kerncap::softgpu {

inline constexpr std::uint64_t k_worker_slice_ns = 500'000;
inline constexpr std::uint64_t k_service_slice_ns = 100'000;

inline void ask_for_slices(std::uint64_t slice_ns) noexcept {
  // The C library's structure may not be declared: this is its first version, of 48 bytes.
  struct Attributes {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime_ns, deadline_ns, period_ns;
  } attributes{};
  static_assert(sizeof attributes == 48);
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.runtime_ns = slice_ns;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace kerncap::softgpu
