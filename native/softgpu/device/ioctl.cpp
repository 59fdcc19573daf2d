// From a request number to the function that serves it.
#include "softgpu/device/ioctl.hpp"

#include <linux/ioctl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "softgpu/device/report.hpp"

namespace kerncap::softgpu {
namespace {

using Serve = int (*)(Driver&, void*, std::size_t);

// As the kernel does: structures grow at their end, so what the caller has and we know is copied in, the rest is zero,
// and only as much is copied back.
template <typename Args, int (*k_function)(Driver&, Args&)>
int serve(Driver& driver, void* argument, std::size_t size_bytes) {
  Args args{};
  const std::size_t shared = std::min(size_bytes, sizeof args);
  std::memcpy(static_cast<void*>(&args), argument, shared);
  const int result = k_function(driver, args);
  std::memcpy(argument, &args, shared);
  return result;
}

int serve_svm(Driver& driver, void* argument, std::size_t size_bytes) {
  auto& args = *static_cast<kfd_ioctl_svm_args*>(argument);
  if (size_bytes < sizeof args || size_bytes - sizeof args < args.nattr * sizeof(kfd_ioctl_svm_attribute)) return -EINVAL;
  return set_svm(driver, args);
}

// Asked for by ROCr when it makes a core dump after an error; it carries on without.
int refuse_debugger(Driver&, void*, std::size_t) { return -EPERM; }

struct Entry {
  const char* name;
  unsigned long request;
  Serve serve;
};

constexpr Entry k_entries[] = {
    {"GET_VERSION", AMDKFD_IOC_GET_VERSION, serve<kfd_ioctl_get_version_args, get_version>},
    {"CREATE_QUEUE", AMDKFD_IOC_CREATE_QUEUE, serve<kfd_ioctl_create_queue_args, create_queue>},
    {"DESTROY_QUEUE", AMDKFD_IOC_DESTROY_QUEUE, serve<kfd_ioctl_destroy_queue_args, destroy_queue>},
    {"SET_MEMORY_POLICY", AMDKFD_IOC_SET_MEMORY_POLICY, serve<kfd_ioctl_set_memory_policy_args, set_memory_policy>},
    {"GET_CLOCK_COUNTERS", AMDKFD_IOC_GET_CLOCK_COUNTERS, serve<kfd_ioctl_get_clock_counters_args, get_clock_counters>},
    {"UPDATE_QUEUE", AMDKFD_IOC_UPDATE_QUEUE, serve<kfd_ioctl_update_queue_args, update_queue>},
    {"CREATE_EVENT", AMDKFD_IOC_CREATE_EVENT, serve<kfd_ioctl_create_event_args, create_event>},
    {"DESTROY_EVENT", AMDKFD_IOC_DESTROY_EVENT, serve<kfd_ioctl_destroy_event_args, destroy_event>},
    {"SET_EVENT", AMDKFD_IOC_SET_EVENT, serve<kfd_ioctl_set_event_args, set_event>},
    {"RESET_EVENT", AMDKFD_IOC_RESET_EVENT, serve<kfd_ioctl_reset_event_args, reset_event>},
    {"WAIT_EVENTS", AMDKFD_IOC_WAIT_EVENTS, serve<kfd_ioctl_wait_events_args, wait_events>},
    {"SET_SCRATCH_BACKING_VA", AMDKFD_IOC_SET_SCRATCH_BACKING_VA, serve<kfd_ioctl_set_scratch_backing_va_args, set_scratch_backing>},
    {"GET_TILE_CONFIG", AMDKFD_IOC_GET_TILE_CONFIG, serve<kfd_ioctl_get_tile_config_args, get_tile_config>},
    {"SET_TRAP_HANDLER", AMDKFD_IOC_SET_TRAP_HANDLER, serve<kfd_ioctl_set_trap_handler_args, set_trap_handler>},
    {"GET_PROCESS_APERTURES_NEW", AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, serve<kfd_ioctl_get_process_apertures_new_args, get_process_apertures>},
    {"ACQUIRE_VM", AMDKFD_IOC_ACQUIRE_VM, serve<kfd_ioctl_acquire_vm_args, acquire_vm>},
    {"ALLOC_MEMORY_OF_GPU", AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, serve<kfd_ioctl_alloc_memory_of_gpu_args, alloc_memory>},
    {"FREE_MEMORY_OF_GPU", AMDKFD_IOC_FREE_MEMORY_OF_GPU, serve<kfd_ioctl_free_memory_of_gpu_args, free_memory>},
    {"MAP_MEMORY_TO_GPU", AMDKFD_IOC_MAP_MEMORY_TO_GPU, serve<kfd_ioctl_map_memory_to_gpu_args, map_memory>},
    {"UNMAP_MEMORY_FROM_GPU", AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, serve<kfd_ioctl_unmap_memory_from_gpu_args, unmap_memory>},
    {"SET_CU_MASK", AMDKFD_IOC_SET_CU_MASK, serve<kfd_ioctl_set_cu_mask_args, set_cu_mask>},
    {"GET_DMABUF_INFO", AMDKFD_IOC_GET_DMABUF_INFO, serve<kfd_ioctl_get_dmabuf_info_args, get_dma_buf_info>},
    {"IMPORT_DMABUF", AMDKFD_IOC_IMPORT_DMABUF, serve<kfd_ioctl_import_dmabuf_args, import_dma_buf>},
    {"ALLOC_QUEUE_GWS", AMDKFD_IOC_ALLOC_QUEUE_GWS, serve<kfd_ioctl_alloc_queue_gws_args, alloc_queue_gws>},
    {"SVM", AMDKFD_IOC_SVM, serve_svm},
    {"SET_XNACK_MODE", AMDKFD_IOC_SET_XNACK_MODE, serve<kfd_ioctl_set_xnack_mode_args, set_xnack_mode>},
    {"AVAILABLE_MEMORY", AMDKFD_IOC_AVAILABLE_MEMORY, serve<kfd_ioctl_get_available_memory_args, get_available_memory>},
    {"RUNTIME_ENABLE", AMDKFD_IOC_RUNTIME_ENABLE, serve<kfd_ioctl_runtime_enable_args, enable_runtime>},
    {"DBG_TRAP", AMDKFD_IOC_DBG_TRAP, refuse_debugger},
    {"EXPORT_DMABUF", AMDKFD_IOC_EXPORT_DMABUF, serve<kfd_ioctl_export_dmabuf_args, export_dma_buf>},
    {"IPC_IMPORT_HANDLE", AMDKFD_IOWR(k_ipc_import_number, IpcImportArgs), serve<IpcImportArgs, import_ipc>},
    {"IPC_EXPORT_HANDLE", AMDKFD_IOWR(k_ipc_export_number, IpcExportArgs), serve<IpcExportArgs, export_ipc>},
};

// Said once for each number: programs probe for features, and a flood would hide what matters.
void report_unknown(unsigned number) {
  static std::atomic<std::uint64_t> said[4]{};
  const std::uint64_t bit = std::uint64_t{1} << number % 64;
  if ((said[number / 64 % 4].fetch_or(bit) & bit) == 0) report("driver call 0x%02x is not emulated", number);
}

}  // namespace

int Driver::ioctl(unsigned long request, void* argument) noexcept {
  const unsigned number = _IOC_NR(request);
  const auto* entry = std::find_if(std::begin(k_entries), std::end(k_entries),
                                   [&](const Entry& e) { return _IOC_NR(e.request) == number; });
  if (entry == std::end(k_entries)) {
    report_unknown(number);
    errno = ENOTTY;
    return -1;
  }
  const int result = entry->serve(*this, argument, _IOC_SIZE(request));
  trace("driver call %s: %s", entry->name, result == 0 ? "done" : strerrorname_np(-result));
  if (result == 0) return 0;
  errno = -result;
  return -1;
}

}  // namespace kerncap::softgpu
