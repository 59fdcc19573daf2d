// Driver calls that share buffers, within a process and between processes.
//
// A dma-buf is a handle of the memory file with the buffer's offset as its position; the record in the file says the
// rest. The share handle of AMD's own driver, 128 bits that a program passes on as it likes, says in which process and
// under which descriptor the file is to be found: process u32, descriptor u32, page of the buffer u64.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softgpu/device/ioctl.hpp"
#include "softgpu/device/shared_buffer.hpp"

namespace kerncap::softgpu {
namespace {

struct ShareHandle {
  std::uint32_t process, descriptor;
  std::uint64_t page;
};
static_assert(sizeof(ShareHandle) == sizeof(IpcExportArgs::share_handle));

int import(Driver& driver, SharedBuffer shared, std::uint64_t va, std::uint64_t& handle) {
  if (shared.pages == nullptr) return -EINVAL;
  Buffer buffer;
  buffer.gpu = driver.gpus()[shared.gpu_index].get();
  buffer.va = va;
  buffer.size_bytes = shared.pages->size_bytes();
  buffer.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
  buffer.host = shared.pages->host();
  buffer.pages = std::move(shared.pages);
  handle = driver.buffers().add(std::move(buffer));
  return 0;
}

}  // namespace

int export_dma_buf(Driver& driver, kfd_ioctl_export_dmabuf_args& args) {
  const auto buffer = driver.buffers().find(args.handle);
  if (buffer == nullptr || buffer->pages == nullptr) return -EINVAL;
  const int fd = export_buffer(*buffer->pages, buffer->gpu->index, (args.flags & O_CLOEXEC) != 0);
  if (fd < 0) return -errno;
  args.dmabuf_fd = static_cast<std::uint32_t>(fd);
  return 0;
}

int get_dma_buf_info(Driver& driver, kfd_ioctl_get_dmabuf_info_args& args) {
  const SharedBuffer shared = find_shared_buffer(driver, static_cast<int>(args.dmabuf_fd));
  if (shared.pages == nullptr) return -EINVAL;
  args.size = shared.pages->size_bytes();
  args.metadata_size = 0;
  args.gpu_id = driver.gpus()[shared.gpu_index]->id;
  args.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
  return 0;
}

int import_dma_buf(Driver& driver, kfd_ioctl_import_dmabuf_args& args) {
  std::uint64_t handle = 0;
  const int error =
      import(driver, find_shared_buffer(driver, static_cast<int>(args.dmabuf_fd)), args.va_addr, handle);
  args.handle = handle;
  return error;
}

int export_ipc(Driver& driver, IpcExportArgs& args) {
  const auto buffer = driver.buffers().find(args.handle);
  if (buffer == nullptr || buffer->pages == nullptr) return -EINVAL;
  record_export(*buffer->pages, buffer->gpu->index);
  const ShareHandle handle{static_cast<std::uint32_t>(getpid()),
                           static_cast<std::uint32_t>(buffer->pages->file().fd()),
                           buffer->pages->offset() / k_page_bytes};
  std::memcpy(args.share_handle, &handle, sizeof handle);
  return 0;
}

int import_ipc(Driver& driver, IpcImportArgs& args) {
  ShareHandle handle{};
  std::memcpy(&handle, args.share_handle, sizeof handle);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/fd/%u", handle.process, handle.descriptor);
  const core::UniqueFd fd(open(path, O_RDWR | O_CLOEXEC));
  if (!fd.valid() || lseek(fd.get(), static_cast<off_t>(handle.page * k_page_bytes), SEEK_SET) < 0) return -errno;
  SharedBuffer shared = find_shared_buffer(driver, fd.get());
  if (shared.pages != nullptr) args.mmap_offset = map_offset(*shared.pages);
  std::uint64_t buffer_handle = 0;
  const int error = import(driver, std::move(shared), args.va_addr, buffer_handle);
  args.handle = buffer_handle;
  args.flags = 0;
  return error;
}

}  // namespace kerncap::softgpu
