// How waves begin: which registers hold what.
#include "softgpu/exec/work_group.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "softgpu/exec/launch_plan.hpp"
#include "softgpu/memory/address_space.hpp"
#include "softgpu/memory/host_guard.hpp"

namespace kerncap::softgpu {
namespace {

// LDS, registers and scratch memory begin as what the last kernel left there, on hardware: dispatches take turns with these bytes, and what was
// right by luck in one is wrong in another. The first ones of LDS are large negative numbers in integers, fp32, fp64 and bf16,
// and NaN in fp16: a kernel that counts on zeros does not get away with it. The second are large positive ones, the third small.
// Registers and scratch memory of a queue's first dispatch are zeros, as after a reset.
constexpr std::uint64_t k_unset_lds[] = {0xFEFE'FEFE'FEFE'FEFE, 0x7E7E'7E7E'7E7E'7E7E, 0x0101'0101'0101'0101};
constexpr std::uint32_t k_unset_registers[] = {0, 0x7E7E'7E7E, 0xFEFE'FEFE};
static_assert(std::size(k_unset_lds) == std::size(k_unset_registers));

// Of each wave's scratch memory, what is filled: the rest takes more time than most kernels do.
constexpr std::uint64_t k_most_filled_bytes = 64 * 4096;

// LDS is given out in blocks of 128 dwords, and accesses are checked against what was given.
constexpr std::uint32_t k_lds_granule_bytes = 512;

[[nodiscard]] std::uint32_t allocated_lds_bytes(const Dispatch& dispatch) noexcept {
  return (dispatch.group_segment_size_bytes + k_lds_granule_bytes - 1) / k_lds_granule_bytes * k_lds_granule_bytes;
}

// STATUS-like bits are not modelled; MODE begins as the descriptor says, with every exception masked.
[[nodiscard]] std::uint32_t initial_mode(const KernelDescriptor& kernel) noexcept {
  return kernel.float_mode | (kernel.dx10_clamp ? k_mode_dx10_clamp : 0U) | (kernel.ieee ? k_mode_ieee : 0U);
}

}  // namespace

void WorkGroup::release_scratch() noexcept {
  for (const std::uint32_t slot : m_slots) m_scratch->give_back(slot);
  m_slots.clear();
}

bool WorkGroup::reserve_scratch(const LaunchPlan& plan) {
  if (plan.dispatch.private_segment_size_bytes == 0) return true;
  const std::size_t count = plan.waves_per_group();
  m_scratch = plan.dispatch.scratch.get();
  while (m_slots.size() < count) {
    std::uint32_t slot;
    if (!m_scratch->take(slot)) {
      release_scratch();
      return false;
    }
    m_slots.push_back(slot);
  }
  return true;
}

void WorkGroup::start(const LaunchPlan& plan, std::uint64_t group_index, WorkerState& worker) {
  const Dispatch& dispatch = plan.dispatch;
  id[0] = static_cast<std::uint32_t>(group_index % plan.groups[0]);
  id[1] = static_cast<std::uint32_t>(group_index / plan.groups[0] % plan.groups[1]);
  id[2] = static_cast<std::uint32_t>(group_index / plan.groups[0] / plan.groups[1]);
  // The last work-group of a dimension may be cut off by the grid; its work-items are numbered within what is left.
  std::uint32_t size[3];
  for (unsigned i = 0; i < 3; ++i) {
    size[i] = std::min<std::uint32_t>(dispatch.group[i], dispatch.grid[i] - id[i] * dispatch.group[i]);
  }
  const std::size_t wave_count = plan.waves_of(size[0] * size[1] * size[2]);

  const std::size_t rows_per_wave = std::size_t{plan.kernel.vgprs} + plan.kernel.agprs;
  WaveContext first_wave;
  const std::size_t rows = rows_per_wave * wave_count;
  const std::size_t lds_words = allocated_lds_bytes(dispatch) / sizeof k_unset_lds[0];
  if (dispatch.begins_with_leftovers) {
    // What the last work-group in this place left. Its place never shrinks, so a smaller one between keeps the rest.
    m_registers.resize(std::max(m_registers.size(), rows));
    m_lds.resize(std::max(m_lds.size(), lds_words));
    if (!waves.empty()) first_wave.sgpr = waves.front().sgpr;
  } else {
    const std::size_t turn = dispatch.kernels_before % std::size(k_unset_lds);
    Row unset;
    std::ranges::fill(unset.lane, k_unset_registers[turn]);
    m_registers.assign(rows, unset);
    m_lds.assign(lds_words, k_unset_lds[turn]);
    fill_scratch(plan);
  }
  interrupt = &dispatch.interrupt;
  goes_on_beyond_lds = &dispatch.goes_on_beyond_lds;
  sync = plan.sync;
  clock_ahead_ns = dispatch.clock_ahead_ns;
  waves.assign(wave_count, first_wave);
  status.assign(wave_count, WaveStatus::ready);
  for (std::size_t i = 0; i < wave_count; ++i) {
    WaveContext& wave = waves[i];
    wave.group = this;
    wave.worker = &worker;
    wave.index = static_cast<std::uint32_t>(i);
    wave.vgpr = m_registers.data() + i * rows_per_wave;
    wave.agpr = wave.vgpr + plan.kernel.vgprs;
    wave.lds = reinterpret_cast<std::byte*>(m_lds.data());
    start_wave(plan, wave, static_cast<std::uint32_t>(i * plan.lanes()), size);
  }
}

// What is no longer mapped is a fault of the kernel when it goes there.
void WorkGroup::fill_scratch(const LaunchPlan& plan) const {
  if (m_slots.empty()) return;
  const Dispatch& dispatch = plan.dispatch;
  const std::uint64_t wanted = std::uint64_t{dispatch.private_segment_size_bytes} * plan.lanes();
  const std::uint64_t bytes = std::min({wanted, m_scratch->bytes_per_wave(), k_most_filled_bytes});
  const auto byte = static_cast<unsigned char>(k_unset_registers[dispatch.kernels_before % std::size(k_unset_registers)]);
  const AddressSpace::View view(*dispatch.space);
  for (const std::uint32_t slot : m_slots) {
    std::byte* const memory = view.host(m_scratch->base() + slot * m_scratch->bytes_per_wave(), bytes, Rights::write);
    if (memory != nullptr) (void)HostGuard::guarded([&] { std::memset(memory, byte, bytes); });
  }
}

void WorkGroup::start_wave(const LaunchPlan& plan, WaveContext& wave, std::uint32_t first_item, const std::uint32_t (&size)[3]) {
  const Dispatch& dispatch = plan.dispatch;
  const KernelDescriptor& kernel = plan.kernel;
  wave.target = dispatch.target;
  wave.lanes = static_cast<std::uint8_t>(plan.lanes());
  wave.pc = plan.entry_pc;
  wave.vgpr_count = kernel.vgprs;
  wave.agpr_count = kernel.agprs;
  wave.sgpr_count = kernel.sgprs;
  wave.lds_size_bytes = allocated_lds_bytes(dispatch);
  wave.shared_base = dispatch.shared_base;
  wave.private_base = dispatch.private_base;
  wave.set_mode(initial_mode(kernel));

  const std::uint32_t items = size[0] * size[1] * size[2] - first_item;
  wave.set_exec(all_lanes_of(std::min(items, plan.lanes())));
  // Work-item ids of the three dimensions are packed into v0.
  for (std::uint32_t lane = 0; lane < plan.lanes(); ++lane) {
    const std::uint32_t item = first_item + lane;
    const std::uint32_t x = item % size[0];
    const std::uint32_t y = item / size[0] % size[1];
    const std::uint32_t z = item / size[0] / size[1];
    wave.vgpr[0].lane[lane] = lane < items ? x | y << 10 | z << 20 : 0;
  }

  std::copy_n(plan.user_sgprs.begin(), kernel.user_sgprs, wave.sgpr.begin());
  unsigned next = kernel.user_sgprs;
  for (unsigned i = 0; i < 3; ++i) {
    if (kernel.group_id_sgpr[i]) wave.sgpr[next++] = id[i];
  }
  if (kernel.group_info_sgpr) {
    // First wave, ordered append and the number of waves; only the two outer fields mean something here.
    wave.sgpr[next++] = (wave.index == 0 ? 1U << 31 : 0U) | static_cast<std::uint32_t>(waves.size());
  }
  if (m_slots.empty()) return;
  const std::uint64_t offset = m_slots[wave.index] * dispatch.scratch->bytes_per_wave();
  wave.scratch_base = dispatch.scratch->base() + offset;
  wave.scratch_size_bytes_per_lane = static_cast<std::uint32_t>(dispatch.scratch->bytes_per_wave() / plan.lanes());
  if (traits(dispatch.target).has_architected_scratch) {
    wave.set_sgpr64(k_flat_scratch, wave.scratch_base);
  } else if (kernel.private_segment) {
    wave.sgpr[next] = static_cast<std::uint32_t>(offset);
  }
}

}  // namespace kerncap::softgpu
