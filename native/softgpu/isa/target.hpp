// The instruction set architectures that the software GPU executes: one row of traits for each.
//
// Whatever differs between targets is a trait that says what differs, never a comparison with a target's name. A new
// target is a row here, a row of device/chip.cpp, its table of opcodes, and the handlers that are its own.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace kerncap::softgpu {

enum class Target : std::uint8_t { gfx90a, gfx942, gfx1100 };

// Which decoder reads the instructions of a target.
enum class Encoding : std::uint8_t { gfx9, gfx11 };

// What bit 13 of a FLAT, GLOBAL or SCRATCH instruction of gfx9 says.
enum class FlatBit13 : std::uint8_t {
  to_lds,              // the load goes to LDS; scratch has a vector address where it has no scalar one
  has_vector_address,  // scratch has a vector address; opcodes of their own load to LDS
};

struct TargetTraits {
  std::string_view name;
  std::string_view generic_name;  // of code objects for the whole family; empty: the target is in none
  std::string_view features;      // of code objects that run here, as messages name them; empty: the target has none
  Encoding encoding;
  std::uint8_t lanes;  // of a wavefront, where the kernel does not say otherwise
  FlatBit13 flat_bit13;
  std::uint8_t m0_operand;  // the operand that is M0: 124 on CDNA, 125 on RDNA
  bool has_null_operand;    // the other one of 124 and 125 is a null register, else it is reserved
  // Scratch that the hardware addresses by itself, with no descriptor or wave offset in SGPRs.
  bool has_architected_scratch;
  bool has_xcc_id;  // a hardware register that tells the accelerator die
  bool has_sdwa, has_dpp8;
  bool has_dpp_wave_shift, has_dpp_row_broadcast, has_dpp_row_xmask;
  bool keeps_high_half;         // of the register, in every 16-bit result; else the opcode decides
  bool compares_to_exec_alone;  // v_cmpx writes no other lane mask
  bool f64_matrix_negates;      // blgp of matrix products of doubles negates sources
  // Denormal inputs and results of these are zero, whatever MODE says.
  bool dot2_flushes_denormals, matrix16_flushes_denormals, f32_atomics_flush_denormals;
};

inline constexpr TargetTraits k_target_traits[] = {
    {.name = "gfx90a",
     .generic_name = "",
     .features = "sramecc+, xnack-",
     .encoding = Encoding::gfx9,
     .lanes = 64,
     .flat_bit13 = FlatBit13::to_lds,
     .m0_operand = 124,
     .has_null_operand = false,
     .has_architected_scratch = false,
     .has_xcc_id = false,
     .has_sdwa = true,
     .has_dpp8 = false,
     .has_dpp_wave_shift = true,
     .has_dpp_row_broadcast = true,
     .has_dpp_row_xmask = false,
     .keeps_high_half = false,
     .compares_to_exec_alone = false,
     .f64_matrix_negates = false,
     .dot2_flushes_denormals = true,
     .matrix16_flushes_denormals = true,
     .f32_atomics_flush_denormals = true},
    {.name = "gfx942",
     .generic_name = "gfx9-4-generic",
     .features = "sramecc+, xnack-",
     .encoding = Encoding::gfx9,
     .lanes = 64,
     .flat_bit13 = FlatBit13::has_vector_address,
     .m0_operand = 124,
     .has_null_operand = false,
     .has_architected_scratch = true,
     .has_xcc_id = true,
     .has_sdwa = true,
     .has_dpp8 = false,
     .has_dpp_wave_shift = true,
     .has_dpp_row_broadcast = true,
     .has_dpp_row_xmask = false,
     .keeps_high_half = false,
     .compares_to_exec_alone = false,
     .f64_matrix_negates = true,
     .dot2_flushes_denormals = false,
     .matrix16_flushes_denormals = false,
     .f32_atomics_flush_denormals = false},
    {.name = "gfx1100",
     .generic_name = "gfx11-generic",
     .features = "",
     .encoding = Encoding::gfx11,
     .lanes = 32,
     .flat_bit13 = FlatBit13::has_vector_address,
     .m0_operand = 125,
     .has_null_operand = true,
     .has_architected_scratch = true,
     .has_xcc_id = false,
     .has_sdwa = false,
     .has_dpp8 = true,
     .has_dpp_wave_shift = false,
     .has_dpp_row_broadcast = false,
     .has_dpp_row_xmask = true,
     .keeps_high_half = true,
     .compares_to_exec_alone = true,
     .f64_matrix_negates = false,
     .dot2_flushes_denormals = false,
     .matrix16_flushes_denormals = false,
     .f32_atomics_flush_denormals = false},
};
inline constexpr unsigned k_target_count = std::size(k_target_traits);

[[nodiscard]] constexpr const TargetTraits& traits(Target target) noexcept {
  return k_target_traits[static_cast<unsigned>(target)];
}

[[nodiscard]] constexpr std::string_view name(Target target) noexcept { return traits(target).name; }

[[nodiscard]] constexpr std::optional<Target> parse_target(std::string_view text) noexcept {
  for (unsigned i = 0; i < k_target_count; ++i) {
    if (k_target_traits[i].name == text) return static_cast<Target>(i);
  }
  return std::nullopt;
}

}  // namespace kerncap::softgpu
