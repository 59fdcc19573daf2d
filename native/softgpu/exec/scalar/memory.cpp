// Scalar loads, clocks and cache control. Caches are not modelled: memory is always coherent.
#include <algorithm>
#include <cstring>

#include "softgpu/exec/monotonic_clock.hpp"
#include "softgpu/exec/scalar/ops.hpp"
#include "softgpu/exec/work_group.hpp"

namespace kerncap::softgpu::scalar {
namespace {

// s_memrealtime counts at 100 MHz, s_memtime at the (pretended) 1 GHz of the shader clock.
constexpr std::uint64_t k_ns_per_real_time_tick = 10;

// The two low bits of a scalar address are ignored.
[[nodiscard]] constexpr std::uint64_t align(std::uint64_t va) noexcept { return va & ~std::uint64_t{3}; }

// Immediate and register offsets together; the register one is unsigned.
[[nodiscard]] std::uint64_t offset_of(const WaveContext& wave, const Instruction& instruction) noexcept {
  std::uint64_t offset = static_cast<std::uint64_t>(std::int64_t{instruction.offset});
  if (instruction.src[1].kind != OperandKind::none) offset += wave.scalar32(instruction.src[1]);
  return offset;
}

[[nodiscard]] Flow load_dwords(WaveContext& wave, const Instruction& instruction, std::uint64_t va, unsigned count) noexcept {
  Translation& memory = wave.worker->memory;
  std::uint32_t* const out = &wave.sgpr[instruction.dst.index];
  if (memory.is_recorded()) [[unlikely]] memory.note_read(va, 4U * count);
  if (const std::byte* host = memory.host(va, 4U * count, Rights::read)) [[likely]] {
    std::memcpy(out, host, 4U * count);
    return Flow::next;
  }
  std::uint32_t values[16];
  for (unsigned i = 0; i < count; ++i) {
    const std::byte* host = memory.host(va + 4 * i, 4, Rights::read);
    if (host == nullptr) {
      const bool mapped = memory.rights(va + 4 * i) != Rights::none;
      return wave.stop(instruction, mapped ? FaultKind::forbidden_access : FaultKind::unmapped_address, va + 4 * i, 0,
                       AccessKind::read, 4);
    }
    std::memcpy(&values[i], host, 4);
  }
  std::copy_n(values, count, out);
  return Flow::next;
}

Flow load(WaveContext& wave, const Instruction& instruction) noexcept {
  const std::uint64_t va = align(wave.scalar64(instruction.src[0]) + offset_of(wave, instruction));
  return load_dwords(wave, instruction, va, instruction.dst.dwords);
}

// The resource: 48 bits of base, 14 of stride, 32 of records. Dwords beyond the records read as zero.
Flow buffer_load(WaveContext& wave, const Instruction& instruction) noexcept {
  const std::uint32_t* resource = &wave.sgpr[instruction.src[0].index];
  const std::uint64_t base = (std::uint64_t{resource[1] & 0xFFFF} << 32 | resource[0]);
  const std::uint64_t stride = (resource[1] >> 16) & 0x3FFF;
  const std::uint64_t size_bytes = stride == 0 ? resource[2] : stride * resource[2];
  const std::uint64_t offset = align(offset_of(wave, instruction));
  const unsigned count = instruction.dst.dwords;
  const std::uint64_t present = offset >= size_bytes ? 0 : std::min<std::uint64_t>((size_bytes - offset) / 4, count);
  std::fill_n(&wave.sgpr[instruction.dst.index] + present, count - present, 0U);
  if (present == 0) return Flow::next;
  return load_dwords(wave, instruction, align(base + offset), static_cast<unsigned>(present));
}

// In one dispatch all waves see one clock. Between dispatches it may jump: device/clock_jumps.hpp.
std::uint64_t clock_ns(const WaveContext& wave) noexcept { return monotonic_ns() + wave.group->clock_ahead_ns; }

Flow shader_clock(WaveContext& wave, const Instruction& instruction) noexcept {
  write(wave, instruction.dst, clock_ns(wave));
  return Flow::next;
}

Flow real_time_clock(WaveContext& wave, const Instruction& instruction) noexcept {
  write(wave, instruction.dst, clock_ns(wave) / k_ns_per_real_time_tick);
  return Flow::next;
}

Flow nothing(WaveContext&, const Instruction&) noexcept { return Flow::next; }

constexpr HandlerEntry k_entries[] = {
    {"s_load_dword", always<load>},
    {"s_load_dwordx2", always<load>},
    {"s_load_dwordx4", always<load>},
    {"s_load_dwordx8", always<load>},
    {"s_load_dwordx16", always<load>},
    {"s_buffer_load_dword", always<buffer_load>},
    {"s_buffer_load_dwordx2", always<buffer_load>},
    {"s_buffer_load_dwordx4", always<buffer_load>},
    {"s_buffer_load_dwordx8", always<buffer_load>},
    {"s_buffer_load_dwordx16", always<buffer_load>},
    {"s_memtime", always<shader_clock>},
    {"s_memrealtime", always<real_time_clock>},
    {"s_dcache_inv", always<nothing>},
    {"s_dcache_inv_vol", always<nothing>},
    {"s_dcache_wb", always<nothing>},
    {"s_dcache_wb_vol", always<nothing>},
};

}  // namespace

void register_memory(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
