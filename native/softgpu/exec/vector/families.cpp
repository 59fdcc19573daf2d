// The families of this folder. Each is a table of mnemonics in a file of its own.
#include "softgpu/exec/vector/families.hpp"

#include "softgpu/exec/vector/dpp.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

bool form_is_supported(Target target, const Instruction& instruction) noexcept {
  switch (instruction.variant) {
    case Variant::plain: return true;
    case Variant::sdwa: return traits(target).has_sdwa;
    case Variant::dpp: return dpp_control_exists(target, instruction.dpp.control);
    case Variant::dpp8: return traits(target).has_dpp8;
  }
  return false;
}

void register_vector_families(HandlerTable& table) {
  register_bits(table);
  register_carry(table);
  register_compare_float(table);
  register_compare_integer(table);
  register_convert(table);
  register_division(table);
  register_dot(table);
  register_float16(table);
  register_float32(table);
  register_float64(table);
  register_fp8(table);
  register_integer16(table);
  register_integer32(table);
  register_lane_access(table);
  register_media(table);
  register_min_max(table);
  register_mix(table);
  register_packed16(table);
  register_packed32(table);
  register_transcendental(table);
  if constexpr (k_lanes == 64) {  // the layouts of MFMA are those of 64 lanes
    register_matrix(table);
    register_sparse_matrix(table);
  }
}

}  // namespace kerncap::softgpu
