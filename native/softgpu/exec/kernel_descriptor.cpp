#include "softgpu/exec/kernel_descriptor.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace kerncap::softgpu {
namespace {

constexpr unsigned k_vgpr_granule = 8;   // CDNA 2 and 3: one file for VGPRs and AGPRs
constexpr unsigned k_accum_granule = 4;
constexpr unsigned k_arch_vgprs = 256;
constexpr unsigned k_sgpr_limit = 112;   // 102 addressable, VCC, flat_scratch and XNACK mask, rounded up
constexpr unsigned k_user_sgpr_limit = 16;

template <typename T>
[[nodiscard]] T read(std::span<const std::byte, k_descriptor_bytes> bytes, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

[[nodiscard]] constexpr unsigned field(std::uint32_t word, unsigned high, unsigned low) noexcept {
  return (word >> low) & ((2U << (high - low)) - 1);
}

[[nodiscard]] core::Error refuse(Target target, const std::string& what) {
  return {core::ErrorCode::invalid_argument, "kernel descriptor: " + what + ", which " + std::string(name(target)) + " cannot start"};
}

[[nodiscard]] unsigned sgprs_enabled(const KernelDescriptor& d) noexcept {
  return 4U * d.private_segment_buffer + 2U * d.dispatch_ptr + 2U * d.queue_ptr + 2U * d.kernarg_ptr + 2U * d.dispatch_id +
         2U * d.flat_scratch_init + 1U * d.private_segment_size + d.preload_dwords;
}

}  // namespace

unsigned KernelDescriptor::initial_sgprs(Target target) const noexcept {
  const unsigned group_ids = 0U + group_id_sgpr[0] + group_id_sgpr[1] + group_id_sgpr[2];
  return user_sgprs + group_ids + group_info_sgpr + (private_segment && !traits(target).has_architected_scratch);
}

core::Result<KernelDescriptor> KernelDescriptor::parse(Target target, std::span<const std::byte, k_descriptor_bytes> bytes) {
  if (traits(target).encoding != Encoding::gfx9) {
    return core::Error{core::ErrorCode::unsupported, "kernel descriptor: target not implemented"};
  }
  KernelDescriptor d;
  d.group_segment_bytes = read<std::uint32_t>(bytes, 0);
  d.private_segment_bytes = read<std::uint32_t>(bytes, 4);
  d.entry_offset = read<std::int64_t>(bytes, 16);
  const auto rsrc3 = read<std::uint32_t>(bytes, 44);
  const auto rsrc1 = read<std::uint32_t>(bytes, 48);
  const auto rsrc2 = read<std::uint32_t>(bytes, 52);
  const auto properties = read<std::uint16_t>(bytes, 56);
  const auto preload = read<std::uint16_t>(bytes, 58);

  const unsigned registers = (field(rsrc1, 5, 0) + 1) * k_vgpr_granule;
  const unsigned accum_offset = (field(rsrc3, 5, 0) + 1) * k_accum_granule;
  if (accum_offset > registers) {
    return refuse(target, "AGPRs begin at register " + std::to_string(accum_offset) + " of " + std::to_string(registers));
  }
  d.vgprs = static_cast<std::uint16_t>(std::min(accum_offset, k_arch_vgprs));
  d.agprs = static_cast<std::uint16_t>(std::min(registers - accum_offset, k_arch_vgprs));
  const unsigned sgprs = (field(rsrc1, 9, 6) / 2 + 1) * 16;
  if (sgprs > k_sgpr_limit) return refuse(target, std::to_string(sgprs) + " SGPRs");
  d.sgprs = static_cast<std::uint16_t>(sgprs);
  d.float_mode = static_cast<std::uint8_t>(field(rsrc1, 19, 12));
  d.dx10_clamp = field(rsrc1, 21, 21) != 0;
  d.ieee = field(rsrc1, 23, 23) != 0;
  if (field(rsrc1, 20, 20) != 0 || field(rsrc1, 22, 22) != 0) return refuse(target, "privileged or debug mode");

  d.is_split = field(rsrc3, 16, 16) != 0;
  d.private_segment = field(rsrc2, 0, 0) != 0;
  d.user_sgprs = static_cast<std::uint8_t>(field(rsrc2, 5, 1));
  for (unsigned i = 0; i < 3; ++i) d.group_id_sgpr[i] = field(rsrc2, 7 + i, 7 + i) != 0;
  d.group_info_sgpr = field(rsrc2, 10, 10) != 0;
  if (field(rsrc2, 12, 11) == 3) return refuse(target, "work-item ids of a fourth kind");

  d.private_segment_buffer = field(properties, 0, 0) != 0;
  d.dispatch_ptr = field(properties, 1, 1) != 0;
  d.queue_ptr = field(properties, 2, 2) != 0;
  d.kernarg_ptr = field(properties, 3, 3) != 0;
  d.dispatch_id = field(properties, 4, 4) != 0;
  d.flat_scratch_init = field(properties, 5, 5) != 0;
  d.private_segment_size = field(properties, 6, 6) != 0;
  if (field(properties, 10, 10) != 0) return refuse(target, "waves of 32 lanes");
  d.preload_dwords = static_cast<std::uint8_t>(field(preload, 6, 0));
  d.preload_offset_dwords = static_cast<std::uint16_t>(field(preload, 15, 7));

  if (d.user_sgprs > k_user_sgpr_limit) return refuse(target, std::to_string(d.user_sgprs) + " user SGPRs");
  if (sgprs_enabled(d) > d.user_sgprs) {
    return refuse(target, std::to_string(sgprs_enabled(d)) + " SGPRs of arguments in " + std::to_string(d.user_sgprs) + " user SGPRs");
  }
  if (d.initial_sgprs(target) > d.sgprs) {
    return refuse(target, std::to_string(d.initial_sgprs(target)) + " initial SGPRs of " + std::to_string(d.sgprs));
  }
  return d;
}

}  // namespace kerncap::softgpu
