// Memory that is about to be written as a whole gets its pages in one call: a page fault takes longer than to copy a page.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace kerncap::replay {

// Before Linux 5.14, and where something watches the memory, nothing happens.
inline void populate(std::byte* memory, std::size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  constexpr std::uintptr_t page = 4096;
  constexpr std::size_t least_bytes = 64 << 10;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory) & ~(page - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) & ~(page - 1);
  if (bytes >= least_bytes) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#else
  (void)memory, (void)bytes;
#endif
}

}  // namespace kerncap::replay
