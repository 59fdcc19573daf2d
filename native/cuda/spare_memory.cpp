// Operator new and delete of this library alone: it exports neither (library.map).
#include "cuda/spare_memory.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

// What a capture's lists and messages need, many times over; in pages that nobody touches before. Never given back.
constexpr std::size_t k_spare_bytes = 4 << 20;
constexpr std::size_t k_align = alignof(std::max_align_t);
alignas(k_align) std::byte g_spare[k_spare_bytes];
std::atomic<std::size_t> g_used{0};

bool is_spare(const void* memory) noexcept {
  const auto address = reinterpret_cast<std::size_t>(memory);
  const auto begin = reinterpret_cast<std::size_t>(g_spare);
  return address >= begin && address < begin + k_spare_bytes;
}

}  // namespace

namespace kerncap::cuda {

bool spare_memory_is_used() noexcept { return g_used.load(std::memory_order_relaxed) != 0; }

}  // namespace kerncap::cuda

void* operator new(std::size_t bytes) {
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  if (bytes > k_spare_bytes) throw std::bad_alloc();
  const std::size_t whole = (bytes + k_align - 1) / k_align * k_align;
  const std::size_t at = g_used.fetch_add(whole);
  if (at > k_spare_bytes - whole) throw std::bad_alloc();
  return g_spare + at;
}

void operator delete(void* memory) noexcept {
  if (!is_spare(memory)) std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
