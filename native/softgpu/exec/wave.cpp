// The rarely taken paths of the wave state: scalar broadcasts, special sources, faults.
#include "softgpu/exec/wave.hpp"

#include <algorithm>

#include "softgpu/exec/work_group.hpp"

namespace kerncap::softgpu {

namespace {

// Operand encodings of OperandKind::special. The apertures read as the base or last address of their window.
constexpr unsigned k_src_shared_base = 235;
constexpr unsigned k_src_shared_limit = 236;
constexpr unsigned k_src_private_base = 237;
constexpr unsigned k_src_private_limit = 238;
constexpr unsigned k_src_vccz = 251;
constexpr unsigned k_src_execz = 252;
constexpr unsigned k_src_scc = 253;

}  // namespace

std::uint64_t WaveContext::special_value(const Operand& operand) const noexcept {
  constexpr std::uint64_t k_aperture_last = 0xFFFFFFFF;
  switch (operand.index) {
    case k_src_shared_base: return shared_base;
    case k_src_shared_limit: return shared_base | k_aperture_last;
    case k_src_private_base: return private_base;
    case k_src_private_limit: return private_base | k_aperture_last;
    case k_src_vccz: return vcc_is_zero();
    case k_src_execz: return exec_is_zero();
    case k_src_scc: return scc;
    default: return 0;  // the decoder lets no other encoding through
  }
}

const Row* WaveContext::broadcast_scalar(const Operand& operand, Row* out) const noexcept {
  const std::uint64_t value = operand.dwords > 1 ? scalar64(operand) : scalar32(operand);
  std::fill_n(out[0].lane, k_max_lanes, static_cast<std::uint32_t>(value));
  if (operand.dwords > 1) std::fill_n(out[1].lane, k_max_lanes, static_cast<std::uint32_t>(value >> 32));
  return out;
}

void WaveContext::rebuild_exec_row(std::uint64_t mask) noexcept {
  m_exec_row_mask = mask;
  for (unsigned i = 0; i < k_max_lanes; ++i) m_exec_row.lane[i] = 0U - static_cast<std::uint32_t>((mask >> i) & 1);
}

Flow WaveContext::stop(const Instruction& instruction, FaultKind kind, std::uint64_t address, unsigned lane,
                       AccessKind access, std::uint32_t size_bytes, std::string_view detail) noexcept {
  fault = Fault{};
  fault.kind = kind;
  fault.access = access;
  fault.target = target;
  fault.lane = static_cast<std::uint8_t>(lane);
  fault.address = address;
  fault.pc = instruction.pc;
  fault.size_bytes = size_bytes;
  if (group != nullptr) std::copy_n(group->id, 3, fault.group_id);
  fault.wave = index;
  if (instruction.opcode != nullptr) fault.mnemonic = instruction.opcode->mnemonic;
  fault.detail = detail;
  return Flow::fault;
}

}  // namespace kerncap::softgpu
