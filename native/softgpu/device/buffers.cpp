#include "softgpu/device/buffers.hpp"

#include <linux/kfd_ioctl.h>

#include <utility>

namespace kerncap::softgpu {

Rights rights_of(std::uint32_t flags) noexcept {
  Rights rights = Rights::read;
  if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE) != 0) rights = rights | Rights::write;
  if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE) != 0) rights = rights | Rights::execute;
  return rights;
}

void map_buffer(Buffer& buffer, Gpu& gpu) {
  const std::uint64_t host = reinterpret_cast<std::uint64_t>(buffer.host);
  Extent extent{buffer.va, buffer.va + buffer.size_bytes, host - buffer.va, rights_of(buffer.flags)};
  if ((buffer.flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM) != 0) {
    // A ring that is mapped twice, side by side, so that packets may run over its end.
    const std::uint64_t half = buffer.size_bytes / 2;
    extent.end = buffer.va + half;
    gpu.space.map(extent);
    extent = {buffer.va + half, buffer.va + buffer.size_bytes, host - buffer.va - half, extent.rights};
  }
  gpu.space.map(extent);
  buffer.mapped_gpus |= 1U << gpu.index;
}

void unmap_buffer(Buffer& buffer, Gpu& gpu) {
  if ((buffer.mapped_gpus & 1U << gpu.index) == 0) return;
  gpu.space.unmap(buffer.va, buffer.va + buffer.size_bytes);
  buffer.mapped_gpus &= ~(1U << gpu.index);
}

std::uint64_t BufferTable::add(Buffer buffer) {
  const std::lock_guard lock(m_mutex);
  const std::uint64_t handle = std::uint64_t{buffer.gpu->id} << 32 | m_next++;
  m_buffers.emplace(handle, std::make_shared<Buffer>(std::move(buffer)));
  return handle;
}

std::shared_ptr<Buffer> BufferTable::find(std::uint64_t handle) const {
  const std::lock_guard lock(m_mutex);
  const auto found = m_buffers.find(handle);
  return found == m_buffers.end() ? nullptr : found->second;
}

std::shared_ptr<Buffer> BufferTable::remove(std::uint64_t handle) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_buffers.find(handle);
  if (found == m_buffers.end()) return nullptr;
  std::shared_ptr<Buffer> buffer = std::move(found->second);
  m_buffers.erase(found);
  return buffer;
}

}  // namespace kerncap::softgpu
