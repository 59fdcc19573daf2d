#include "hsa/device_errors.hpp"

#include <new>

#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

bool profiling() noexcept { return enabled() && tool()->profiling(); }

}  // namespace

void QueueErrors::take_part(ErrorCallback& callback, void*& data) noexcept {
  if (callback == nullptr || !profiling()) return;
  auto* theirs = new (std::nothrow) QueueErrors{callback, data};
  if (theirs == nullptr) return;
  data = theirs;
  callback = [](hsa_status_t status, hsa_queue_t* source, void* argument) {
    const auto& errors = *static_cast<const QueueErrors*>(argument);
    if (profiling()) tool()->profiler.harvest();
    errors.call(status, source, errors.data);
  };
}

void expect_memory_faults() noexcept {
  if (!profiling() || api().ext.hsa_amd_register_system_event_handler_fn == nullptr) return;
  // Only a handler that succeeds keeps the runtime from what it would do without one.
  api().ext.hsa_amd_register_system_event_handler_fn(
      [](const hsa_amd_event_t*, void*) {
        if (profiling()) tool()->profiler.harvest();
        return HSA_STATUS_ERROR;
      },
      nullptr);
}

}  // namespace kerncap::hsa
