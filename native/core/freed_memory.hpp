// Memory that malloc() keeps for later calls.
#pragma once

#include <malloc.h>

namespace kerncap::core {

// Without this, free() gives the system back what holds a chunk or more, and the next one has page faults again.
inline void keep_freed_memory() noexcept {
  constexpr int k_least_mapped_bytes = 32 << 20, k_most_idle_bytes = 64 << 20;
  ::mallopt(M_MMAP_THRESHOLD, k_least_mapped_bytes);
  ::mallopt(M_TRIM_THRESHOLD, k_most_idle_bytes);
}

}  // namespace kerncap::core
