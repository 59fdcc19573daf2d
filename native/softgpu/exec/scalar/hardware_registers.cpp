// s_getreg and s_setreg. MODE is real; of the others only what a program may ask without a debugger.
#include "softgpu/exec/scalar/ops.hpp"

namespace kerncap::softgpu::scalar {
namespace {

enum HardwareRegister : std::uint32_t {
  k_mode = 1, k_status = 2, k_trap_status = 3, k_hardware_id = 4, k_gpr_alloc = 5, k_lds_alloc = 6, k_ib_status = 7,
  k_memory_bases = 15, k_xcc_id = 20,
};

// The operand: register in bits 0..5, first bit in 6..10, width less one in 11..15.
struct Field {
  std::uint32_t id, shift, mask;
};
[[nodiscard]] Field field_of(const Instruction& instruction) noexcept {
  const std::uint32_t code = static_cast<std::uint32_t>(instruction.offset) & 0xFFFF;
  const std::uint32_t width = (code >> 11) + 1;
  return {code & 0x3F, (code >> 6) & 0x1F, width >= 32 ? ~0U : (1U << width) - 1};
}

[[nodiscard]] std::uint32_t status_of(const WaveContext& wave) noexcept {
  return (wave.scc ? 1U : 0U) | (wave.exec() == 0 ? 1U << 9 : 0U) | (wave.vcc() == 0 ? 1U << 10 : 0U) | 1U << 16;
}

// False: not modelled. There is one compute unit and one accelerator die; a wave's number is its number in the group.
[[nodiscard]] bool value_of(const WaveContext& wave, std::uint32_t id, std::uint32_t& value) noexcept {
  switch (id) {
    case k_mode: value = wave.mode; return true;
    case k_status: value = status_of(wave); return true;
    case k_trap_status: value = 0; return true;
    case k_hardware_id: value = wave.index & 0xF; return true;
    case k_gpr_alloc: value = ((wave.vgpr_count + wave.agpr_count) / 8U - 1) << 8; return true;
    case k_lds_alloc: value = wave.lds_size_bytes / 256 << 12; return true;
    case k_ib_status: value = 0; return true;
    case k_memory_bases:
      value = static_cast<std::uint32_t>(wave.private_base >> 48) | static_cast<std::uint32_t>(wave.shared_base >> 48) << 16;
      return true;
    case k_xcc_id: value = 0; return traits(wave.target).has_xcc_id;
    default: return false;
  }
}

Flow refuse(WaveContext& wave, const Instruction& instruction) noexcept {
  return wave.stop(instruction, FaultKind::unsupported_operand, 0, 0, AccessKind::none, 0, "a hardware register that is not modelled");
}

Flow get_register(WaveContext& wave, const Instruction& instruction) noexcept {
  const Field field = field_of(instruction);
  std::uint32_t value = 0;
  if (!value_of(wave, field.id, value)) return refuse(wave, instruction);
  write(wave, instruction.dst, (value >> field.shift) & field.mask);
  return Flow::next;
}

Flow set_register(WaveContext& wave, const Instruction& instruction, std::uint32_t value) noexcept {
  const Field field = field_of(instruction);
  // Sticky exception bits: nothing sets them, so clearing them is right, and so is writing them.
  if (field.id == k_trap_status) return Flow::next;
  if (field.id != k_mode) return refuse(wave, instruction);
  wave.set_mode((wave.mode & ~(field.mask << field.shift)) | (value & field.mask) << field.shift);
  // The interpreter looks at the indexing bit when a wave jumps.
  wave.pc = instruction.next_pc();
  return Flow::jump;
}

Flow set_from_register(WaveContext& wave, const Instruction& instruction) noexcept {
  return set_register(wave, instruction, read<std::uint32_t>(wave, instruction.dst));  // the field names the source
}

Flow set_from_literal(WaveContext& wave, const Instruction& instruction) noexcept {
  return set_register(wave, instruction, static_cast<std::uint32_t>(instruction.src[0].value));
}

constexpr HandlerEntry k_entries[] = {
    {"s_getreg_b32", always<get_register>},
    {"s_setreg_b32", always<set_from_register>},
    {"s_setreg_imm32_b32", always<set_from_literal>},
};

}  // namespace

void register_hardware_registers(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
