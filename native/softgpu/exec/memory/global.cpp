// Global, flat and scratch loads and stores.
#include "softgpu/exec/memory/elements.hpp"
#include "softgpu/exec/memory/families.hpp"
#include "softgpu/exec/memory/vector_address.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

constexpr Row k_lane_times_4 = [] {
  Row row{};
  for (unsigned i = 0; i < k_lanes; ++i) row.lane[i] = 4 * i;
  return row;
}();

template <class Element>
Flow global_load(WaveContext& wave, const Instruction& in) noexcept {
  Row* to = wave.destination_row(in.dst);
  return for_each_global_group(
      wave, in, [&](const LaneOffsets& lanes) { return load_memory<Element>(wave, in, lanes, to); });
}

template <class Element>
Flow global_load_to_lds(WaveContext& wave, const Instruction& in) noexcept {
  Row* to = &wave.worker->scratch[k_lds_values];
  const Flow flow = for_each_global_group(
      wave, in, [&](const LaneOffsets& lanes) { return load_memory<Element>(wave, in, lanes, to); });
  return flow == Flow::next ? put_in_lds(wave, in) : flow;
}

template <class Element>
Flow global_store(WaveContext& wave, const Instruction& in) noexcept {
  const Row* from = wave.source_row(in, 1);
  return for_each_global_group(
      wave, in, [&](const LaneOffsets& lanes) { return store_memory<Element>(wave, in, lanes, from); });
}

template <class Element>
Flow flat_load(WaveContext& wave, const Instruction& in) noexcept {
  Row* to = wave.destination_row(in.dst);
  return for_each_flat_group(
      wave, in, [&](const LaneOffsets& lanes) { return load_memory<Element>(wave, in, lanes, to); },
      [&](const LaneOffsets& lanes) { return load_lds<Element>(wave, in, lanes, to); },
      [&](const ScratchLanes& lanes) { return load_scratch<Element>(wave, in, lanes, to); });
}

template <class Element>
Flow flat_store(WaveContext& wave, const Instruction& in) noexcept {
  const Row* from = wave.source_row(in, 1);
  return for_each_flat_group(
      wave, in, [&](const LaneOffsets& lanes) { return store_memory<Element>(wave, in, lanes, from); },
      [&](const LaneOffsets& lanes) { return store_lds<Element>(wave, in, lanes, from); },
      [&](const ScratchLanes& lanes) { return store_scratch<Element>(wave, in, lanes, from); });
}

template <class Element>
Flow scratch_load(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  return load_scratch<Element>(wave, in, scratch_lanes(wave, in), wave.destination_row(in.dst));
}

template <class Element>
Flow scratch_load_to_lds(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  Row* to = &wave.worker->scratch[k_lds_values];
  const Flow flow = load_scratch<Element>(wave, in, scratch_lanes(wave, in), to);
  return flow == Flow::next ? put_in_lds(wave, in) : flow;
}

template <class Element>
Flow scratch_store(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  return store_scratch<Element>(wave, in, scratch_lanes(wave, in), wave.source_row(in, 1));
}

// The LDS bit of gfx90a's plain loads means the same as the opcodes that gfx942 has; a d16 or wide load has no such form.
template <class Element>
struct Global {
  static Handler load(Target, Instruction& in) {
    if (!in.memory.to_lds) return global_load<Element>;
    if constexpr (Element::k_may_go_to_lds) return global_load_to_lds<Element>;
    return nullptr;
  }
  static Handler store(Target, Instruction& in) { return in.memory.to_lds ? nullptr : global_store<Element>; }
  static Handler load_to_lds(Target, Instruction&) { return global_load_to_lds<Element>; }
};

template <class Element>
struct Flat {
  static Handler load(Target, Instruction& in) { return in.memory.to_lds ? nullptr : flat_load<Element>; }
  static Handler store(Target, Instruction& in) { return in.memory.to_lds ? nullptr : flat_store<Element>; }
};

template <class Element>
struct Scratch {
  static Handler load(Target, Instruction& in) {
    if (!in.memory.to_lds) return scratch_load<Element>;
    if constexpr (Element::k_may_go_to_lds) return scratch_load_to_lds<Element>;
    return nullptr;
  }
  static Handler store(Target, Instruction& in) { return in.memory.to_lds ? nullptr : scratch_store<Element>; }
  static Handler load_to_lds(Target, Instruction&) { return scratch_load_to_lds<Element>; }
};

constexpr HandlerEntry k_global[] = {KERNCAP_LOADS_AND_STORES("global", Global), KERNCAP_LDS_LOADS("global", Global)};
constexpr HandlerEntry k_flat[] = {KERNCAP_LOADS_AND_STORES("flat", Flat)};
constexpr HandlerEntry k_scratch[] = {KERNCAP_LOADS_AND_STORES("scratch", Scratch), KERNCAP_LDS_LOADS("scratch", Scratch)};

}  // namespace

Flow put_in_lds(WaveContext& wave, const Instruction& in) noexcept {
  const std::uint64_t mask = active_lanes(wave);
  if (mask == 0) return Flow::next;
  const std::uint32_t start = (wave.m0() & 0xFFFF) + static_cast<std::uint32_t>(in.offset);
  return store_lds<Dwords<1>>(wave, in, {0, &k_lane_times_4, start, mask}, &wave.worker->scratch[k_lds_values]);
}

void register_global(HandlerTable& table) {
  table.add(k_global);
  table.add(k_flat);
  table.add(k_scratch);
}

}  // namespace kerncap::softgpu
