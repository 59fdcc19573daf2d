// Driver calls that allocate, register and map memory.
#include <cerrno>
#include <utility>

#include "softgpu/device/ioctl.hpp"
#include "softgpu/device/report.hpp"
#include "softgpu/memory/host_mappings.hpp"

namespace kerncap::softgpu {
namespace {

[[nodiscard]] bool is_page_aligned(std::uint64_t value) noexcept { return value % k_page_bytes == 0; }

[[nodiscard]] const char* kind_of(std::uint32_t flags) noexcept {
  if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != 0) return "the program's own memory";
  if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) != 0) return "doorbells";
  if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) != 0) return "registers";
  return (flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) != 0 ? "VRAM" : "system memory";
}

}  // namespace

int get_available_memory(Driver& driver, kfd_ioctl_get_available_memory_args& args) {
  const Gpu* gpu = driver.gpu(args.gpu_id);
  if (gpu == nullptr) return -EINVAL;
  args.available = driver.memory()->available_bytes(gpu->index);
  return 0;
}

int alloc_memory(Driver& driver, kfd_ioctl_alloc_memory_of_gpu_args& args) {
  Gpu* gpu = driver.gpu(args.gpu_id);
  if (gpu == nullptr || args.size == 0 || !is_page_aligned(args.va_addr)) return -EINVAL;
  MemoryFile& file = *driver.memory();
  Buffer buffer;
  buffer.gpu = gpu;
  buffer.va = args.va_addr;
  buffer.size_bytes = (args.size + k_page_bytes - 1) / k_page_bytes * k_page_bytes;
  buffer.flags = args.flags;

  if ((args.flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != 0) {
    if (!is_page_aligned(args.mmap_offset)) return -EINVAL;
    // The driver takes the pages for writing.
    const std::uint64_t end = args.mmap_offset + buffer.size_bytes;
    const auto mappings = host_mappings(args.mmap_offset, end);
    if (!cover(mappings, args.mmap_offset, end, Rights::none)) return -EFAULT;
    if (!cover(mappings, args.mmap_offset, end, Rights::read | Rights::write)) return -EPERM;
    buffer.host = reinterpret_cast<std::byte*>(args.mmap_offset);
  } else if ((args.flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) != 0) {
    if (args.size != k_doorbell_bytes) return -EINVAL;
    // Through the program's own mapping, where a store is noticed.
    buffer.host = reinterpret_cast<std::byte*>(args.va_addr);
    args.mmap_offset = file.doorbells_offset(gpu->index);
  } else if ((args.flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) != 0) {
    if (args.size != k_page_bytes) return -EINVAL;
    buffer.host = file.view() + file.registers_offset(gpu->index);
    args.mmap_offset = file.registers_offset(gpu->index);
  } else {
    const bool vram = (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) != 0;
    const bool twice = (args.flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM) != 0;
    const auto pool = vram ? gpu->index : static_cast<unsigned>(driver.gpus().size());
    buffer.pages = file.allocate(pool, twice ? buffer.size_bytes / 2 : buffer.size_bytes);
    if (buffer.pages == nullptr) return -ENOMEM;
    buffer.host = buffer.pages->host();
    args.mmap_offset = buffer.pages->offset();
  }
  trace("memory: %llu bytes of %s at 0x%llx for GPU %u", static_cast<unsigned long long>(args.size),
        kind_of(args.flags), static_cast<unsigned long long>(args.va_addr), gpu->index);
  args.handle = driver.buffers().add(std::move(buffer));
  return 0;
}

int free_memory(Driver& driver, kfd_ioctl_free_memory_of_gpu_args& args) {
  const auto buffer = driver.buffers().remove(args.handle);
  if (buffer == nullptr) return -EINVAL;
  if ((buffer->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) != 0) driver.scheduler().doorbells().remove(buffer->va);
  for (const auto& gpu : driver.gpus()) unmap_buffer(*buffer, *gpu);
  return 0;
}

int map_memory(Driver& driver, kfd_ioctl_map_memory_to_gpu_args& args) {
  const auto buffer = driver.buffers().find(args.handle);
  if (buffer == nullptr || buffer->va == 0) return -EINVAL;
  const auto* ids = reinterpret_cast<const std::uint32_t*>(args.device_ids_array_ptr);
  for (; args.n_success < args.n_devices; ++args.n_success) {
    Gpu* gpu = driver.gpu(ids[args.n_success]);
    if (gpu == nullptr) return -EINVAL;
    map_buffer(*buffer, *gpu);
  }
  // Only now has the program mapped the doorbells.
  if ((buffer->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) != 0) {
    driver.scheduler().doorbells().add(buffer->va, buffer->size_bytes);
  }
  return 0;
}

int unmap_memory(Driver& driver, kfd_ioctl_unmap_memory_from_gpu_args& args) {
  const auto buffer = driver.buffers().find(args.handle);
  if (buffer == nullptr) return -EINVAL;
  const auto* ids = reinterpret_cast<const std::uint32_t*>(args.device_ids_array_ptr);
  for (; args.n_success < args.n_devices; ++args.n_success) {
    Gpu* gpu = driver.gpu(ids[args.n_success]);
    if (gpu == nullptr) return -EINVAL;
    unmap_buffer(*buffer, *gpu);
  }
  return 0;
}

int set_svm(Driver& driver, kfd_ioctl_svm_args& args) {
  switch (args.op) {
    case KFD_IOCTL_SVM_OP_SET_ATTR: {
      // The driver refuses a range with holes. What the program may only read, a GPU may only read, and what it has closed is not
      // mapped for one.
      const std::uint64_t end = args.start_addr + args.size;
      const auto mappings = host_mappings(args.start_addr, end);
      if (end < args.start_addr || !cover(mappings, args.start_addr, end, Rights::none)) return -EFAULT;
      return driver.svm().set(args.start_addr, args.size, {args.attrs, args.nattr}, mappings);
    }
    case KFD_IOCTL_SVM_OP_GET_ATTR: return driver.svm().get(args.start_addr, args.size, {args.attrs, args.nattr});
    default: return -EINVAL;
  }
}

}  // namespace kerncap::softgpu
