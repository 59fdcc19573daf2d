// What this process has mapped, and how: the kernel driver looks at the same before it lets a GPU at a program's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/memory/address_space.hpp"

namespace kerncap::softgpu {

struct HostMapping {
  std::uint64_t begin = 0, end = 0;
  Rights rights = Rights::none;  // of the processor's
};

// The mappings within [begin, end), cut to it, in order. Where the kernel's list cannot be read: one for all of it, with all rights.
[[nodiscard]] std::vector<HostMapping> host_mappings(std::uint64_t begin, std::uint64_t end);

// Whether they leave no hole in [begin, end), and all of them have these rights.
[[nodiscard]] bool cover(const std::vector<HostMapping>& mappings, std::uint64_t begin, std::uint64_t end, Rights wanted) noexcept;

}  // namespace kerncap::softgpu
