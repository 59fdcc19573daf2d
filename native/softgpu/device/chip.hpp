// The chips that the software GPU can pose as: one row for each, with what the kernel driver would report of it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "softgpu/isa/target.hpp"

namespace kerncap::softgpu {

struct Chip {
  Target target;
  const char* marketing_name;
  const char* amd_name;
  unsigned gfx_version;  // major * 10000 + minor * 100 + stepping
  unsigned device_id;
  unsigned family_id;
  unsigned compute_units, simds_per_unit, waves_per_simd, registers_per_simd;
  unsigned shader_arrays, shader_arrays_per_engine, units_per_array;
  unsigned xcc_count;
  // compute_tmpring_size: the width and unit of its size field, and how many parts of the chip have its number of waves.
  unsigned tmpring_size_bits, tmpring_unit_bytes, tmpring_parts;
  unsigned lds_kib;
  unsigned clock_mhz, memory_clock_mhz, memory_width_bits;
  unsigned sdma_engines, sdma_xgmi_engines, sdma_queues_per_engine;
  unsigned firmware_version, sdma_firmware_version;
  std::uint64_t vram_bytes;
  unsigned l1_kib, l2_kib, l3_kib;  // vector L1 of one unit; L3 0: none
  unsigned cache_line_bytes;
  bool ecc;   // part of the ISA name that code objects are matched against (sramecc+)
  bool xgmi;  // how several of them are linked
};

[[nodiscard]] const Chip& chip_of(Target target) noexcept;

}  // namespace kerncap::softgpu
