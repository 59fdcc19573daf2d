// Numbers by which the kernel driver's files name the GPUs. Node 0 of the topology is the CPU, nodes 1.. are the GPUs.
#pragma once

#include <cstdint>

namespace kerncap::softgpu {

inline constexpr unsigned k_first_render_minor = 128;
inline constexpr std::uint32_t k_first_gpu_id = 0x4b01;  // any number but 0: the driver hashes one from the PCI slot

// By the index of a GPU, from 0. Each is alone on its bus, as device 0, function 0, of domain 0.
[[nodiscard]] constexpr unsigned pci_bus(unsigned gpu_index) noexcept { return gpu_index + 1; }
[[nodiscard]] constexpr std::uint64_t unique_id(unsigned gpu_index) noexcept { return 0x6b63000000000001U + gpu_index; }

}  // namespace kerncap::softgpu
