// A buffer as libdrm's users hold it: imported into one GPU, mapped at addresses that the program chose.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "softgpu/device/gpu.hpp"
#include "softgpu/device/memory_file.hpp"

namespace kerncap::softgpu {

struct VmBuffer {
  VmBuffer();
  ~VmBuffer();  // also unmaps it, everywhere
  VmBuffer(const VmBuffer&) = delete;
  VmBuffer& operator=(const VmBuffer&) = delete;

  // The number by which a mapping offset is asked for.
  [[nodiscard]] std::uint32_t number() const noexcept { return m_number; }
  [[nodiscard]] static VmBuffer* by_number(std::uint32_t number) noexcept;

  [[nodiscard]] bool map(std::uint64_t va, std::uint64_t offset, std::uint64_t size_bytes, Rights rights);
  void unmap(std::uint64_t va, std::uint64_t size_bytes);
  [[nodiscard]] void* map_for_host() noexcept;  // null: out of address space

  Gpu* gpu = nullptr;
  std::shared_ptr<Pages> pages;

 private:
  struct Mapping {
    std::uint64_t begin, end;
  };
  std::uint32_t m_number;
  std::vector<Mapping> m_mappings;
  void* m_host = nullptr;
};

}  // namespace kerncap::softgpu
