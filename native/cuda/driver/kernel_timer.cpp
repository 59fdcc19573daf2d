// One kernel runs at a time, so that the last record is its own.
#include "cuda/driver/kernel_timer.hpp"

#include <atomic>
#include <cstdlib>

#include "cuda/api.hpp"

namespace kerncap::cuda {
namespace {

constexpr std::size_t k_buffer_bytes = 1 << 20;
std::atomic<std::uint64_t> g_last_ns{0};

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, k_buffer_bytes));
  *bytes = *buffer == nullptr ? 0 : k_buffer_bytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  while (cupti().cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    if (kernel.end > kernel.start) g_last_ns.store(kernel.end - kernel.start);
  }
  std::free(buffer);
}

}  // namespace

bool KernelTimer::start() noexcept {
  if (!load_cupti()) return false;
  CUptiResult status = cupti().cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  if (status == CUPTI_SUCCESS) status = cupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  m_on = status == CUPTI_SUCCESS;
  return m_on;
}

std::optional<std::uint64_t> KernelTimer::last_ns() noexcept {
  if (!m_on) return std::nullopt;
  g_last_ns.store(0);
  if (cupti().cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != CUPTI_SUCCESS) return std::nullopt;
  const std::uint64_t found = g_last_ns.load();
  return found == 0 ? std::nullopt : std::optional(found);
}

}  // namespace kerncap::cuda
