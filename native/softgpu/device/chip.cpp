// Figures of real chips, as their drivers print them: programs size grids and buffers by them.
//
// The firmware versions stay below those from which ROCr expects asynchronous scratch reclaim (177 for gfx94x).
#include "softgpu/device/chip.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_gib = std::uint64_t{1} << 30;

constexpr Chip k_chips[] = {
    {.target = Target::gfx90a, .marketing_name = "kerncap software GPU (gfx90a)", .amd_name = "aldebaran",
     .gfx_version = 90010, .device_id = 0x740f, .family_id = 0x8d,
     .compute_units = 104, .simds_per_unit = 4, .waves_per_simd = 8, .registers_per_simd = 512,
     .shader_arrays = 8, .shader_arrays_per_engine = 1, .units_per_array = 14, .xcc_count = 1,
     .tmpring_size_bits = 13, .tmpring_unit_bytes = 1024, .tmpring_parts = 1, .lds_kib = 64,
     .clock_mhz = 1700, .memory_clock_mhz = 1600, .memory_width_bits = 4096,
     .sdma_engines = 2, .sdma_xgmi_engines = 3, .sdma_queues_per_engine = 8,
     .firmware_version = 78, .sdma_firmware_version = 8, .vram_bytes = 64 * k_gib,
     .l1_kib = 16, .l2_kib = 8192, .l3_kib = 0, .cache_line_bytes = 128, .ecc = true, .xgmi = true},
    {.target = Target::gfx942, .marketing_name = "kerncap software GPU (gfx942)", .amd_name = "aqua_vanjaram",
     .gfx_version = 90402, .device_id = 0x74a1, .family_id = 0x8d,
     .compute_units = 304, .simds_per_unit = 4, .waves_per_simd = 8, .registers_per_simd = 512,
     .shader_arrays = 32, .shader_arrays_per_engine = 1, .units_per_array = 10, .xcc_count = 8,
     .tmpring_size_bits = 13, .tmpring_unit_bytes = 1024, .tmpring_parts = 8, .lds_kib = 64,
     .clock_mhz = 2100, .memory_clock_mhz = 1300, .memory_width_bits = 8192,
     .sdma_engines = 2, .sdma_xgmi_engines = 14, .sdma_queues_per_engine = 8,
     .firmware_version = 166, .sdma_firmware_version = 19, .vram_bytes = 192 * k_gib,
     .l1_kib = 32, .l2_kib = 4096, .l3_kib = 262144, .cache_line_bytes = 128, .ecc = true, .xgmi = true},
    {.target = Target::gfx1100, .marketing_name = "kerncap software GPU (gfx1100)", .amd_name = "navi31",
     .gfx_version = 110000, .device_id = 0x744c, .family_id = 0x91,
     .compute_units = 96, .simds_per_unit = 2, .waves_per_simd = 16, .registers_per_simd = 1536,
     .shader_arrays = 12, .shader_arrays_per_engine = 2, .units_per_array = 8, .xcc_count = 1,
     .tmpring_size_bits = 15, .tmpring_unit_bytes = 256, .tmpring_parts = 6, .lds_kib = 64,
     .clock_mhz = 2304, .memory_clock_mhz = 1249, .memory_width_bits = 384,
     .sdma_engines = 2, .sdma_xgmi_engines = 0, .sdma_queues_per_engine = 6,
     .firmware_version = 550, .sdma_firmware_version = 24, .vram_bytes = 24 * k_gib,
     .l1_kib = 32, .l2_kib = 6144, .l3_kib = 98304, .cache_line_bytes = 128, .ecc = false, .xgmi = false},
};

}  // namespace

const Chip& chip_of(Target target) noexcept { return k_chips[static_cast<unsigned>(target)]; }

}  // namespace kerncap::softgpu
