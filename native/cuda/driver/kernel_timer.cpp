// One kernel runs at a time: records that are in order of their start are in order of the launches.
#include "cuda/driver/kernel_timer.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "cuda/api.hpp"
#include "cuda/changed.hpp"
#include "cuda/driver/scrub.hpp"

namespace kerncap::cuda {
namespace {

constexpr std::size_t k_buffer_bytes = 1 << 20;
std::mutex g_mutex;
struct Record {
  std::uint64_t start;
  std::uint64_t end;
  bool is_mark;
};
std::vector<Record> g_taken;

bool is_ours(std::string_view name) noexcept {
  return name == k_changed_kernel || name == k_scrub_kernel || name == k_scrub_local_kernel;
}

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
    // Our kernels between two runs are no runs.
    const std::string_view name(kernel.name == nullptr ? "" : kernel.name);
    if (is_ours(name)) continue;
    const std::lock_guard lock(g_mutex);
    g_taken.push_back({kernel.start, kernel.end, name == k_behind_kernel});
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

std::vector<KernelTimer::Time> KernelTimer::take() {
  if (cupti().cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != CUPTI_SUCCESS) return {};
  const std::lock_guard lock(g_mutex);
  std::ranges::sort(g_taken, {}, &Record::start);
  std::vector<Time> times;
  std::uint64_t end = 0;
  for (const Record& record : std::exchange(g_taken, {})) {
    if (!record.is_mark) {
      times.push_back({record.end - record.start, 0});
      end = record.end;
    } else if (!times.empty() && record.start > end) {
      times.back().behind_ns = record.start - end;
    }
  }
  return times;
}

}  // namespace kerncap::cuda
