// Activity records to the collector's ring. One module per process stands for all kernels: records carry names.
#include "cuda/profiler.hpp"

#include <pthread.h>

#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "capture/trials.hpp"
#include "core/no_signals.hpp"
#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

namespace messages = capture::messages;
using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::size_t k_buffer_bytes = 4 << 20;
constexpr std::uint64_t k_module = 1;
constexpr std::chrono::milliseconds k_flush_every{100};
constexpr std::chrono::seconds k_most_at_end{5};

}  // namespace

Result<void> Profiler::start() noexcept {
  tool()->channel->send(messages::Module{.module = k_module});
  CUptiResult status = cupti().cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  if (status == CUPTI_SUCCESS) status = cupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (status != CUPTI_SUCCESS) {
    const char* text = "?";
    cupti().cuptiGetResultString(status, &text);
    return Error{ErrorCode::device, std::string("CUPTI records no kernels: ") + text};
  }
  capture::keep_trial_times([]() noexcept {
    std::uint64_t now_ns = 0;
    cupti().cuptiGetTimestamp(&now_ns);
    return now_ns;
  });
  // A program that is killed loses what has not been flushed: a tenth of a second.
  try {
    const core::NoSignals of_the_program;
    std::thread([this] {
      const Inside inside;
      pthread_setname_np(pthread_self(), "kc-profile");
      for (;;) {   // also behind finish(): programs launch kernels in destructors
        std::this_thread::sleep_for(k_flush_every);
        const RelaxedMode relaxed;   // not sooner: the driver may still be starting
        flush(0);
      }
    }).detach();
  } catch (const std::system_error&) {
    return Error{ErrorCode::io, "no thread can be started to record kernels"};
  }
  return {};
}

void Profiler::context_ends() noexcept {
  if (tool()->channel->mode() != capture::Mode::profile) return;
  const Inside inside;
  const RelaxedMode relaxed;
  flush(0);
}

void Profiler::finish() noexcept {
  const Inside inside;
  const RelaxedMode relaxed;
  send_facts();
  flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  // What another thread has fetched by then is not among what came now, and would end with the program.
  const auto deadline = std::chrono::steady_clock::now() + k_most_at_end;
  while (m_under_way.load() != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Profiler::flush(std::uint32_t flags) noexcept {
  m_under_way.fetch_add(1);
  cupti().cuptiActivityFlushAll(flags);
  m_under_way.fetch_sub(1);
}

void CUPTIAPI Profiler::give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, k_buffer_bytes));
  *bytes = *buffer == nullptr ? 0 : k_buffer_bytes;
  *most_records = 0;
}

void CUPTIAPI Profiler::take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                                    std::size_t valid_bytes) {
  const Inside inside;
  Profiler& self = tool()->profiler;
  self.m_under_way.fetch_add(1);
  send_facts();
  {
    const std::lock_guard lock(self.m_mutex);
    CUpti_Activity* record = nullptr;
    while (cupti().cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) self.take(record);
    std::size_t dropped = 0;
    if (cupti().cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped != 0) {
      tool()->channel->control().untimed.fetch_add(dropped);
      tool()->channel->control().dispatches.fetch_add(dropped);
    }
  }
  std::free(buffer);
  self.m_under_way.fetch_sub(1);
}

void Profiler::take(const CUpti_Activity* activity) noexcept {
  if (activity->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && activity->kind != CUPTI_ACTIVITY_KIND_KERNEL) return;
  // What is read here has had its place since the first record with a 64-bit correlation of graph nodes.
  const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(activity);
  capture::Control& control = tool()->channel->control();
  control.dispatches.fetch_add(1, std::memory_order_relaxed);
  if (kernel.start == 0 && kernel.end == 0) {
    control.untimed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  capture::Record record{};
  record.kernel = number_of(kernel.name == nullptr ? "(no name)" : kernel.name);
  record.device = kernel.deviceId;
  record.queue = kernel.streamId;
  record.group_bytes = static_cast<std::uint32_t>(kernel.staticSharedMemory + kernel.dynamicSharedMemory);
  record.private_bytes = kernel.localMemoryPerThread;
  const std::int32_t grid[3] = {kernel.gridX, kernel.gridY, kernel.gridZ};
  const std::int32_t block[3] = {kernel.blockX, kernel.blockY, kernel.blockZ};
  for (int axis = 0; axis < 3; ++axis) {
    record.grid_work_items[axis] = static_cast<std::uint64_t>(grid[axis]) * static_cast<std::uint64_t>(block[axis]);
    record.block[axis] = static_cast<std::uint16_t>(block[axis]);
  }
  record.in_trial = capture::was_in_trial(kernel.start) ? 1 : 0;
  record.index_in_process = m_next_index++;
  record.start_ns = kernel.start;
  record.end_ns = kernel.end;
  tool()->channel->push_record(record);
}

std::uint32_t Profiler::number_of(const char* name) noexcept {
  const auto found = m_numbers.find(std::string_view(name));
  if (found != m_numbers.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(m_numbers.size() + 1);
  m_numbers.emplace(name, number);
  tool()->channel->send(messages::Kernels{.module = k_module, .kernels = {{.kernel = number, .name = name}}});
  return number;
}

}  // namespace kerncap::cuda
