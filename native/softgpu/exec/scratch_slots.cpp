// Which parts of a queue's scratch memory are in use: a bitmap, since several workers start waves at once.
#include <bit>

#include "softgpu/exec/dispatch.hpp"

namespace kerncap::softgpu {

ScratchSlots::ScratchSlots(std::uint64_t base, std::uint64_t bytes_per_wave, std::uint32_t count)
    : m_base(base), m_bytes_per_wave(bytes_per_wave), m_count(count),
      m_taken(std::make_unique<std::atomic<std::uint64_t>[]>((count + 63) / 64)) {}

bool ScratchSlots::take(std::uint32_t& slot) noexcept {
  for (std::uint32_t word = 0; word * 64 < m_count; ++word) {
    std::uint64_t taken = m_taken[word].load(std::memory_order_relaxed);
    while (~taken != 0) {
      const auto bit = static_cast<std::uint32_t>(std::countr_one(taken));
      if (word * 64 + bit >= m_count) break;
      if (m_taken[word].compare_exchange_weak(taken, taken | (std::uint64_t{1} << bit), std::memory_order_acquire)) {
        slot = word * 64 + bit;
        return true;
      }
    }
  }
  return false;
}

void ScratchSlots::give_back(std::uint32_t slot) noexcept {
  m_taken[slot / 64].fetch_and(~(std::uint64_t{1} << (slot % 64)), std::memory_order_release);
}

}  // namespace kerncap::softgpu
