// Driver calls about the process and its GPUs as a whole.
#include <cerrno>

#include "softgpu/device/clock.hpp"
#include "softgpu/device/ioctl.hpp"

namespace kerncap::softgpu {
namespace {

// What this emulation offers: event ages (1.14), mapping through libdrm (1.15), copy queues by engine (1.17). Newer
// features are not claimed.
constexpr unsigned k_major = 1, k_minor = 17;

}  // namespace

int get_version(Driver&, kfd_ioctl_get_version_args& args) {
  args.major_version = k_major;
  args.minor_version = k_minor;
  return 0;
}

int get_clock_counters(Driver&, kfd_ioctl_get_clock_counters_args& args) {
  args.gpu_clock_counter = gpu_ticks();
  args.cpu_clock_counter = read_clock_ns(CLOCK_MONOTONIC_RAW);
  args.system_clock_counter = read_clock_ns(CLOCK_BOOTTIME);
  args.system_clock_freq = 1'000'000'000;
  return 0;
}

int get_process_apertures(Driver& driver, kfd_ioctl_get_process_apertures_new_args& args) {
  const auto count = static_cast<std::uint32_t>(driver.gpus().size());
  auto* out = reinterpret_cast<kfd_process_device_apertures*>(args.kfd_process_device_apertures_ptr);
  for (std::uint32_t i = 0; i < count && i < args.num_of_nodes; ++i) {
    out[i] = {};
    out[i].lds_base = k_lds_aperture;
    out[i].lds_limit = k_lds_aperture + k_aperture_bytes - 1;
    out[i].scratch_base = k_private_aperture;
    out[i].scratch_limit = k_private_aperture + k_aperture_bytes - 1;
    out[i].gpuvm_base = k_address_begin;
    out[i].gpuvm_limit = k_address_end - 1;
    out[i].gpu_id = driver.gpus()[i]->id;
  }
  args.num_of_nodes = count;
  return 0;
}

int acquire_vm(Driver& driver, kfd_ioctl_acquire_vm_args& args) {
  const Handle handle = driver.handle_of(static_cast<int>(args.drm_fd));
  const Gpu* gpu = driver.gpu(args.gpu_id);
  return gpu != nullptr && handle.kind == HandleKind::render && handle.gpu_index == gpu->index ? 0 : -EINVAL;
}

int set_memory_policy(Driver& driver, kfd_ioctl_set_memory_policy_args& args) {
  return driver.gpu(args.gpu_id) != nullptr ? 0 : -EINVAL;  // caching policy: there are no caches
}

int set_scratch_backing(Driver& driver, kfd_ioctl_set_scratch_backing_va_args& args) {
  return driver.gpu(args.gpu_id) != nullptr ? 0 : -EINVAL;  // read by older chips only; ROCr writes it into its queues
}

int set_trap_handler(Driver& driver, kfd_ioctl_set_trap_handler_args& args) {
  return driver.gpu(args.gpu_id) != nullptr ? 0 : -EINVAL;  // the packet processor does what it would do
}

int enable_runtime(Driver&, kfd_ioctl_runtime_enable_args& args) {
  // "The driver writes core dumps": else ROCr tries to, after each error, and there is nothing to dump.
  args.capabilities_mask = 0x8000'0000;
  return 0;
}

int set_xnack_mode(Driver&, kfd_ioctl_set_xnack_mode_args& args) {
  if (args.xnack_enabled > 0) return -EPERM;
  args.xnack_enabled = 0;
  return 0;
}

int get_tile_config(Driver& driver, kfd_ioctl_get_tile_config_args& args) {
  if (driver.gpu(args.gpu_id) == nullptr) return -EINVAL;
  args.num_tile_configs = 0;
  args.num_macro_tile_configs = 0;
  args.gb_addr_config = 0x24000042;
  args.num_banks = 4;
  args.num_ranks = 1;
  return 0;
}

}  // namespace kerncap::softgpu
