// What a kernel asks for at its start: the 64-byte descriptor that a dispatch packet's kernel_object points at.
//
//   offset  bytes
//        0      4  group_segment_fixed_size
//        4      4  private_segment_fixed_size
//        8      4  kernarg_size: for loaders, not for hardware; hipBLASLt's kernels say 0 and preload arguments
//       16      8  kernel_code_entry_byte_offset, signed, from the descriptor
//       44      4  compute_pgm_rsrc3: accumulation offset (bits 0..5), tgsplit (bit 16)
//       48      4  compute_pgm_rsrc1
//       52      4  compute_pgm_rsrc2
//       56      2  kernel_code_properties
//       58      2  kernarg_preload: length in dwords (bits 0..6), offset in dwords (bits 7..15)
// All little-endian; the rest is reserved.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/result.hpp"
#include "softgpu/isa/target.hpp"

namespace kerncap::softgpu {

inline constexpr std::size_t k_descriptor_bytes = 64;

struct KernelDescriptor {
  std::uint32_t group_segment_bytes = 0;
  std::uint32_t private_segment_bytes = 0;
  std::int64_t entry_offset = 0;
  std::uint16_t vgprs = 0, agprs = 0, sgprs = 0;  // allocated to each wave
  std::uint8_t float_mode = 0;                    // MODE bits 0..7
  bool dx10_clamp = false, ieee = false;
  bool is_split = false;         // waves of a work-group may be on several compute units, and have no LDS (tgsplit)
  bool private_segment = false;  // scratch: wave offset SGPR, or architected flat scratch
  std::uint8_t user_sgprs = 0;
  std::array<bool, 3> group_id_sgpr{};
  bool group_info_sgpr = false;
  // User SGPRs, in the order in which they are laid out.
  bool private_segment_buffer = false, dispatch_ptr = false, queue_ptr = false, kernarg_ptr = false;
  bool dispatch_id = false, flat_scratch_init = false, private_segment_size = false;
  std::uint8_t preload_dwords = 0;
  std::uint16_t preload_offset_dwords = 0;

  // SGPRs that hold something when a wave starts.
  [[nodiscard]] unsigned initial_sgprs(Target target) const noexcept;

  // Refuses, as invalid_argument, what this target's hardware could not start.
  [[nodiscard]] static core::Result<KernelDescriptor> parse(Target target,
                                                            std::span<const std::byte, k_descriptor_bytes> bytes);
};

}  // namespace kerncap::softgpu
