// One GPU of this process.
#pragma once

#include <cstdint>

#include "softgpu/device/chip.hpp"
#include "softgpu/memory/address_space.hpp"

namespace kerncap::softgpu {

struct Gpu {
  Gpu(unsigned index_, std::uint32_t id_, const Chip& chip_) noexcept : index(index_), id(id_), chip(chip_) {}

  const unsigned index;
  const std::uint32_t id;  // as in the topology and in the driver's arguments
  const Chip& chip;
  AddressSpace space;
};

// As the driver sets them for gfx9 and later: 4 GiB windows of flat addresses.
inline constexpr std::uint64_t k_lds_aperture = std::uint64_t{1} << 48;
inline constexpr std::uint64_t k_private_aperture = std::uint64_t{2} << 48;
inline constexpr std::uint64_t k_aperture_bytes = std::uint64_t{1} << 32;
inline constexpr std::uint64_t k_address_begin = std::uint64_t{16} << 20;
inline constexpr std::uint64_t k_address_end = std::uint64_t{1} << 47;

}  // namespace kerncap::softgpu
