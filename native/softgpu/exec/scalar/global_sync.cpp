// ds_gws_*, global wave sync: scalar in nature, as a wave acts as one.
#include <bit>

#include "softgpu/exec/global_wave_sync.hpp"
#include "softgpu/exec/scalar/ops.hpp"
#include "softgpu/exec/work_group.hpp"

namespace kerncap::softgpu::scalar {
namespace {

[[nodiscard]] unsigned resource_of(const WaveContext& wave, const Instruction& instruction) noexcept {
  const std::uint32_t base = (wave.m0() >> 16) & 0x3F;
  return (base + static_cast<std::uint32_t>(instruction.offset)) % GlobalWaveSync::k_resources;
}

// The count is that of the first active lane.
[[nodiscard]] std::uint32_t count_of(const WaveContext& wave, const Instruction& instruction) noexcept {
  const unsigned lane = wave.exec() == 0 ? 0 : static_cast<unsigned>(std::countr_zero(wave.exec()));
  return wave.vgpr[instruction.src[0].index].lane[lane];
}

Flow sync_init(WaveContext& wave, const Instruction& instruction) noexcept {
  wave.group->sync->init(resource_of(wave, instruction), count_of(wave, instruction));
  return Flow::next;
}

Flow sync_barrier(WaveContext& wave, const Instruction& instruction) noexcept {
  const unsigned resource = resource_of(wave, instruction);
  if (wave.sync_ticket == 0) wave.sync_ticket = wave.group->sync->arrive(resource, count_of(wave, instruction));
  if (!wave.group->sync->has_opened(resource, wave.sync_ticket)) return Flow::retry;
  wave.sync_ticket = 0;
  return Flow::next;
}

Flow semaphore_v(WaveContext& wave, const Instruction& instruction) noexcept {
  wave.group->sync->signal(resource_of(wave, instruction), 1);
  return Flow::next;
}

Flow semaphore_br(WaveContext& wave, const Instruction& instruction) noexcept {
  wave.group->sync->signal(resource_of(wave, instruction), count_of(wave, instruction));
  return Flow::next;
}

Flow semaphore_p(WaveContext& wave, const Instruction& instruction) noexcept {
  bool is_waiting = wave.sync_ticket != 0;
  const bool passed = wave.group->sync->pass(resource_of(wave, instruction), is_waiting);
  wave.sync_ticket = is_waiting ? 1 : 0;
  return passed ? Flow::next : Flow::retry;
}

Flow semaphore_release_all(WaveContext& wave, const Instruction& instruction) noexcept {
  wave.group->sync->release_all(resource_of(wave, instruction));
  return Flow::next;
}

constexpr HandlerEntry k_entries[] = {
    {"ds_gws_init", always<sync_init>},
    {"ds_gws_barrier", always<sync_barrier>},
    {"ds_gws_sema_v", always<semaphore_v>},
    {"ds_gws_sema_br", always<semaphore_br>},
    {"ds_gws_sema_p", always<semaphore_p>},
    {"ds_gws_sema_release_all", always<semaphore_release_all>},
};

}  // namespace

void register_global_sync(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
