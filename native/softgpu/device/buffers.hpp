// Buffer objects: memory that ROCr allocated or registered through the driver, and where it is mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "softgpu/device/gpu.hpp"
#include "softgpu/device/memory_file.hpp"

namespace kerncap::softgpu {

struct Buffer {
  Gpu* gpu = nullptr;           // on which it was allocated
  std::uint64_t va = 0;         // 0: has no address of its own, is mapped through libdrm
  std::uint64_t size_bytes = 0;
  std::uint32_t flags = 0;      // KFD_IOC_ALLOC_MEM_FLAGS_*
  std::shared_ptr<Pages> pages; // null for memory of the program, doorbells and registers
  std::byte* host = nullptr;    // of its first byte
  std::uint32_t mapped_gpus = 0;  // bit i: mapped on GPU i
};

[[nodiscard]] Rights rights_of(std::uint32_t flags) noexcept;

// Both take effect before they return; unmap() waits for readers, so no lock of the packet processors may be held.
void map_buffer(Buffer& buffer, Gpu& gpu);
void unmap_buffer(Buffer& buffer, Gpu& gpu);

class BufferTable {
 public:
  [[nodiscard]] std::uint64_t add(Buffer buffer);
  // Shared, so that a buffer that is freed by another thread meanwhile stays valid.
  [[nodiscard]] std::shared_ptr<Buffer> find(std::uint64_t handle) const;
  [[nodiscard]] std::shared_ptr<Buffer> remove(std::uint64_t handle);

 private:
  mutable std::mutex m_mutex;
  std::unordered_map<std::uint64_t, std::shared_ptr<Buffer>> m_buffers;
  std::uint32_t m_next = 1;
};

}  // namespace kerncap::softgpu
