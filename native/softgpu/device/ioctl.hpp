// The driver's system calls, one function each: arguments as in <linux/kfd_ioctl.h>, result 0 or a negative errno.
#pragma once

#include <linux/kfd_ioctl.h>

#include "softgpu/device/driver.hpp"

namespace kerncap::softgpu {

// Of AMD's out-of-tree driver, which ROCr prefers for sharing between processes; not in the kernel's header.
struct IpcExportArgs {
  __u64 handle;
  __u32 share_handle[4];
  __u32 gpu_id, flags;
};
struct IpcImportArgs {
  __u64 handle, va_addr, mmap_offset;
  __u32 share_handle[4];
  __u32 gpu_id, flags;
};
inline constexpr unsigned k_ipc_import_number = 0x80, k_ipc_export_number = 0x81;

// ioctl_process.cpp
int get_version(Driver&, kfd_ioctl_get_version_args&);
int get_clock_counters(Driver&, kfd_ioctl_get_clock_counters_args&);
int get_process_apertures(Driver&, kfd_ioctl_get_process_apertures_new_args&);
int acquire_vm(Driver&, kfd_ioctl_acquire_vm_args&);
int set_memory_policy(Driver&, kfd_ioctl_set_memory_policy_args&);
int set_scratch_backing(Driver&, kfd_ioctl_set_scratch_backing_va_args&);
int set_trap_handler(Driver&, kfd_ioctl_set_trap_handler_args&);
int enable_runtime(Driver&, kfd_ioctl_runtime_enable_args&);
int set_xnack_mode(Driver&, kfd_ioctl_set_xnack_mode_args&);
int get_tile_config(Driver&, kfd_ioctl_get_tile_config_args&);

// ioctl_memory.cpp
int get_available_memory(Driver&, kfd_ioctl_get_available_memory_args&);
int alloc_memory(Driver&, kfd_ioctl_alloc_memory_of_gpu_args&);
int free_memory(Driver&, kfd_ioctl_free_memory_of_gpu_args&);
int map_memory(Driver&, kfd_ioctl_map_memory_to_gpu_args&);
int unmap_memory(Driver&, kfd_ioctl_unmap_memory_from_gpu_args&);
int set_svm(Driver&, kfd_ioctl_svm_args&);  // followed by its attributes

// ioctl_share.cpp
int export_dma_buf(Driver&, kfd_ioctl_export_dmabuf_args&);
int get_dma_buf_info(Driver&, kfd_ioctl_get_dmabuf_info_args&);
int import_dma_buf(Driver&, kfd_ioctl_import_dmabuf_args&);
int export_ipc(Driver&, IpcExportArgs&);
int import_ipc(Driver&, IpcImportArgs&);

// ioctl_queues.cpp
int create_event(Driver&, kfd_ioctl_create_event_args&);
int destroy_event(Driver&, kfd_ioctl_destroy_event_args&);
int set_event(Driver&, kfd_ioctl_set_event_args&);
int reset_event(Driver&, kfd_ioctl_reset_event_args&);
int wait_events(Driver&, kfd_ioctl_wait_events_args&);
int create_queue(Driver&, kfd_ioctl_create_queue_args&);
int destroy_queue(Driver&, kfd_ioctl_destroy_queue_args&);
int update_queue(Driver&, kfd_ioctl_update_queue_args&);
int set_cu_mask(Driver&, kfd_ioctl_set_cu_mask_args&);
int alloc_queue_gws(Driver&, kfd_ioctl_alloc_queue_gws_args&);

}  // namespace kerncap::softgpu
