// The functions of libdrm and libdrm_amdgpu that ROCr calls, in front of the real ones: with a software GPU there is
// no DRM driver for those to talk to. Conversion and delegation only; see libc_hooks.cpp for what a preload may not do.
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <fcntl.h>
#include <unistd.h>
#include <xf86drm.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "softgpu/device/driver.hpp"
#include "softgpu/device/shared_buffer.hpp"
#include "softgpu/device/vm_buffer.hpp"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

using namespace kerncap::softgpu;

// The opaque types behind libdrm's handles.
struct amdgpu_device {
  Driver* driver;
  Gpu* gpu;
  int fd;
};
struct amdgpu_bo : VmBuffer {};

KERNCAP_EXPORT int drmOpenRender(int minor) {
  Driver* driver = Driver::instance();
  const auto index = static_cast<unsigned>(minor) - k_first_render_minor;
  if (driver == nullptr || index >= driver->gpus().size()) {
    errno = ENOENT;
    return -1;
  }
  return driver->open_device({Device::render, index}, O_RDWR | O_CLOEXEC);
}

KERNCAP_EXPORT int drmClose(int fd) { return close(fd); }

KERNCAP_EXPORT int drmCommandWriteRead(int fd, unsigned long index, void* data, unsigned long size_bytes) {
  Driver* driver = Driver::existing();
  if (driver == nullptr || driver->handle_of(fd).kind != HandleKind::render) return -EBADF;
  if (index != DRM_AMDGPU_GEM_MMAP || size_bytes != sizeof(drm_amdgpu_gem_mmap)) return -ENOTTY;
  auto& args = *static_cast<drm_amdgpu_gem_mmap*>(data);
  const VmBuffer* buffer = VmBuffer::by_number(args.in.handle);
  if (buffer == nullptr) return -ENOENT;
  args.out.addr_ptr = map_offset(*buffer->pages);
  return 0;
}

KERNCAP_EXPORT int amdgpu_device_initialize(int fd, uint32_t* major, uint32_t* minor, amdgpu_device_handle* device) {
  Driver* driver = Driver::existing();
  if (driver == nullptr) return -ENODEV;
  const Handle handle = driver->handle_of(fd);
  if (handle.kind != HandleKind::render) return -EINVAL;
  Gpu* gpu = driver->gpus()[handle.gpu_index].get();
  // A descriptor of the device's own: the caller closes the one it passed.
  const int own = driver->open_device({Device::render, gpu->index}, O_RDWR | O_CLOEXEC);
  if (own < 0) return -errno;
  *major = 3;
  *minor = 64;
  *device = new amdgpu_device{driver, gpu, own};
  return 0;
}

KERNCAP_EXPORT int amdgpu_device_deinitialize(amdgpu_device_handle device) {
  close(device->fd);
  delete device;
  return 0;
}

KERNCAP_EXPORT int amdgpu_device_get_fd(amdgpu_device_handle device) { return device->fd; }

KERNCAP_EXPORT const char* amdgpu_get_marketing_name(amdgpu_device_handle device) {
  return device->gpu->chip.marketing_name;
}

KERNCAP_EXPORT int amdgpu_query_gpu_info(amdgpu_device_handle device, struct amdgpu_gpu_info* info) {
  const Chip& chip = device->gpu->chip;
  *info = {};
  info->asic_id = chip.device_id;
  info->family_id = chip.family_id;
  info->gpu_counter_freq = 100'000;  // kHz, of the clock that time stamps are in
  info->max_engine_clk = uint64_t{chip.clock_mhz} * 1000;
  info->max_memory_clk = uint64_t{chip.memory_clock_mhz} * 1000;
  info->num_shader_engines = chip.shader_arrays / chip.shader_arrays_per_engine;
  info->num_shader_arrays_per_engine = chip.shader_arrays_per_engine;
  info->cu_active_number = chip.compute_units;
  info->vram_bit_width = chip.memory_width_bits;
  return 0;
}

KERNCAP_EXPORT int amdgpu_bo_import(amdgpu_device_handle device, enum amdgpu_bo_handle_type type, uint32_t shared,
                                    struct amdgpu_bo_import_result* result) {
  if (type != amdgpu_bo_handle_type_dma_buf_fd) return -EPERM;
  SharedBuffer found = find_shared_buffer(*device->driver, static_cast<int>(shared));
  if (found.pages == nullptr) return -EINVAL;
  auto buffer = std::make_unique<amdgpu_bo>();
  buffer->gpu = device->gpu;
  buffer->pages = std::move(found.pages);
  result->alloc_size = buffer->pages->size_bytes();
  result->buf_handle = buffer.release();
  return 0;
}

KERNCAP_EXPORT int amdgpu_bo_export(amdgpu_bo_handle buffer, enum amdgpu_bo_handle_type type, uint32_t* shared) {
  switch (type) {
    case amdgpu_bo_handle_type_kms: *shared = buffer->number(); return 0;
    case amdgpu_bo_handle_type_dma_buf_fd: {
      const int fd = export_buffer(*buffer->pages, buffer->gpu->index, true);
      if (fd < 0) return -errno;
      *shared = static_cast<uint32_t>(fd);
      return 0;
    }
    default: return -EINVAL;
  }
}

KERNCAP_EXPORT int amdgpu_bo_free(amdgpu_bo_handle buffer) {
  delete buffer;
  return 0;
}

KERNCAP_EXPORT int amdgpu_bo_va_op(amdgpu_bo_handle buffer, uint64_t offset, uint64_t size_bytes, uint64_t va,
                                   uint64_t flags, uint32_t operation) {
  switch (operation) {
    case AMDGPU_VA_OP_MAP:
    case AMDGPU_VA_OP_REPLACE: {
      Rights rights = Rights::none;
      if ((flags & AMDGPU_VM_PAGE_READABLE) != 0) rights = rights | Rights::read;
      if ((flags & AMDGPU_VM_PAGE_WRITEABLE) != 0) rights = rights | Rights::write;
      if ((flags & AMDGPU_VM_PAGE_EXECUTABLE) != 0) rights = rights | Rights::execute;
      return buffer->map(va, offset, size_bytes, rights) ? 0 : -EINVAL;
    }
    case AMDGPU_VA_OP_UNMAP:
    case AMDGPU_VA_OP_CLEAR: buffer->unmap(va, size_bytes); return 0;
    default: return -EINVAL;
  }
}

KERNCAP_EXPORT int amdgpu_bo_cpu_map(amdgpu_bo_handle buffer, void** cpu) {
  *cpu = buffer->map_for_host();
  return *cpu != nullptr ? 0 : -ENOMEM;
}

KERNCAP_EXPORT int amdgpu_bo_query_info(amdgpu_bo_handle buffer, struct amdgpu_bo_info* info) {
  *info = {};
  info->alloc_size = buffer->pages->size_bytes();
  info->phys_alignment = k_page_bytes;
  info->preferred_heap = AMDGPU_GEM_DOMAIN_VRAM;
  std::memcpy(&info->metadata, buffer->pages->record().metadata, sizeof info->metadata);
  return 0;
}

KERNCAP_EXPORT int amdgpu_bo_set_metadata(amdgpu_bo_handle buffer, struct amdgpu_bo_metadata* metadata) {
  static_assert(sizeof *metadata <= sizeof(ExportRecord::metadata));
  std::memcpy(buffer->pages->record().metadata, metadata, sizeof *metadata);
  return 0;
}
