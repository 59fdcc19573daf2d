// The name of the kernel that a kernel descriptor belongs to, for messages: from the code object around it.
#pragma once

#include <cstdint>
#include <string>

#include "softgpu/memory/address_space.hpp"

namespace kerncap::softgpu {

// ROCr's loader keeps the code object's first page, the ELF header, and its dynamic symbols in GPU memory. A kernel
// that has none (ROCr's own copy kernels) is named by its address: "kernel@0x…".
[[nodiscard]] std::string kernel_symbol(const AddressSpace& space, std::uint64_t descriptor_va);  // as the linker knows it
[[nodiscard]] std::string readable_name(const std::string& symbol);                               // demangled
[[nodiscard]] std::string kernel_name(const AddressSpace& space, std::uint64_t descriptor_va);    // both in one

}  // namespace kerncap::softgpu
