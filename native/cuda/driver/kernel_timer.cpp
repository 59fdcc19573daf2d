// One kernel runs at a time: records that are in order of their start are in order of the launches.
#include "cuda/driver/kernel_timer.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "cuda/api.hpp"
#include "cuda/changed.hpp"

namespace kerncap::cuda {
namespace {

constexpr std::size_t k_buffer_bytes = 1 << 20;
std::mutex g_mutex;
std::vector<std::pair<std::uint64_t, std::uint64_t>> g_taken;  // start and end

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
    // What compares memory behind each run is no run.
    if (kernel.name != nullptr && std::string_view(kernel.name) == k_changed_kernel) continue;
    const std::lock_guard lock(g_mutex);
    g_taken.emplace_back(kernel.start, kernel.end);
  }
  std::free(buffer);
}

}  // namespace

bool KernelTimer::start() noexcept {
  if (m_on) return true;
  if (!load_cupti()) return false;
  CUptiResult status = cupti().cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  if (status == CUPTI_SUCCESS) status = cupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  m_on = status == CUPTI_SUCCESS;
  return m_on;
}

std::vector<std::uint64_t> KernelTimer::take_ns() {
  if (cupti().cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != CUPTI_SUCCESS) return {};
  const std::lock_guard lock(g_mutex);
  std::sort(g_taken.begin(), g_taken.end());
  std::vector<std::uint64_t> durations;
  for (const auto& [start, end] : std::exchange(g_taken, {})) durations.push_back(end - start);
  return durations;
}

}  // namespace kerncap::cuda
