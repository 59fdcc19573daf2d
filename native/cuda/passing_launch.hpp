// Launches that are only counted: most calls of most programs. All that they look at are a few lines of the processor's cache,
// which the program's own work has mostly driven out since the last one.
#pragma once

#include <optional>

#include "cuda/counted.hpp"
#include "cuda/cuda_headers.hpp"
#include "cuda/function_table.hpp"
#include "cuda/own_process.hpp"
#include "cuda/this_thread.hpp"

namespace kerncap::cuda {

// Which kernel, and on which stream: null where nothing is ever recorded on it.
struct PassingLaunch {
  const void* function = nullptr;
  CUstream stream = nullptr;
};

[[gnu::always_inline]] inline PassingLaunch read_passing(CUpti_CallbackId call, const void* parameters) noexcept {
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel: {
      const auto& from = *static_cast<const cuLaunchKernel_params*>(parameters);
      return {from.f, from.hStream};
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx: {
      const auto& from = *static_cast<const cuLaunchKernelEx_params*>(parameters);
      if (from.config == nullptr) return {};   // the driver refuses it
      return {from.f, from.config->hStream};
    }
    default:
      return {};
  }
}

// Counts a dispatch before the first one that its rule wants; false where it may be wanted. `counted`: as Snapshots::enter() sets it.
[[gnu::always_inline]] inline bool count_early(OwnProcess& own, std::uint32_t rule, std::uint64_t& counted) noexcept {
  std::uint64_t number = own.matched[rule].load(std::memory_order_relaxed);
  if (number >= own.first_wanted[rule]) return false;
  if (!own.matched[rule].compare_exchange_strong(number, number + 1, std::memory_order_relaxed)) return false;
  counted = counted_as(rule, number);
  return true;
}

// False: there is more to do at this call, and nothing was done.
[[gnu::always_inline]] inline bool lets_pass(OwnProcess& own, CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  const PassingLaunch launch = read_passing(call, data.functionParams);
  if (launch.function == nullptr) return false;
  ThisThread& thread = this_thread();
  if (thread.inside != 0 || thread.holds_window) return false;
  if (data.callbackSite == CUPTI_API_EXIT) {
    const CUresult status = *static_cast<const CUresult*>(data.functionReturnValue);
    if (status != CUDA_SUCCESS || thread.under_way != &own.launching || own.window.load(std::memory_order_seq_cst)) return false;
    own.launching.fetch_sub(1, std::memory_order_seq_cst);
    thread.under_way = nullptr;
    return true;
  }
  if (!own.enabled.load(std::memory_order_relaxed) || thread.under_way != nullptr) return false;
  const std::optional<std::uint32_t> rule = own.functions->rule_of(launch.function);
  if (!rule) return false;
  const bool is_wanted_later = *rule != k_no_rule;
  if (is_wanted_later && launch.stream != nullptr && launch.stream != CU_STREAM_LEGACY) return false;
  note_caller(own, &thread);
  // Either the window sees the launch, or the launch sees the window.
  own.launching.fetch_add(1, std::memory_order_seq_cst);
  *data.correlationData = 0;
  if (own.window.load(std::memory_order_seq_cst) || (is_wanted_later && !count_early(own, *rule, *data.correlationData))) {
    own.launching.fetch_sub(1, std::memory_order_seq_cst);
    return false;
  }
  thread.under_way = &own.launching;
  own.launches.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace kerncap::cuda
