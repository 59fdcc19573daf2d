// Buffer loads and stores without a format.
#include "softgpu/exec/memory/buffer_address.hpp"
#include "softgpu/exec/memory/elements.hpp"
#include "softgpu/exec/memory/families.hpp"
#include "softgpu/exec/memory/vector_address.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

alignas(16) constexpr std::byte k_zeros[16]{};

template <class Element>
Flow load(WaveContext& wave, const Instruction& in, Row* to) noexcept {
  const std::uint64_t mask = active_lanes(wave);
  if (mask == 0) return Flow::next;
  const BufferAddress address = buffer_address(wave, in);
  const BufferPlan plan = plan_buffer(wave, address, Element::k_size);
  if (plan.shape == BufferShape::scratch) return load_scratch<Element>(wave, in, plan.scratch, to);
  if (plan.shape == BufferShape::linear) {
    // The lanes in range first: the zeros of the others may fall on the address register.
    const Flow flow = plan.lanes.mask != 0 ? load_memory<Element>(wave, in, plan.lanes, to) : Flow::next;
    for_each_lane(mask & ~plan.lanes.mask, [&](unsigned lane) { Element::load(k_zeros, to, lane); });
    return flow;
  }
  if (!fetch_buffer(wave, in, address, Element::k_size, false)) return Flow::fault;
  read_lanes<Element>(bounce_place(wave), mask, to);
  return Flow::next;
}

template <class Element>
Flow buffer_load(WaveContext& wave, const Instruction& in) noexcept {
  return load<Element>(wave, in, wave.destination_row(in.dst));
}

template <class Element>
Flow buffer_load_to_lds(WaveContext& wave, const Instruction& in) noexcept {
  const Flow flow = load<Element>(wave, in, &wave.worker->scratch[k_lds_values]);
  return flow == Flow::next ? put_in_lds(wave, in) : flow;
}

template <class Element>
Flow buffer_store(WaveContext& wave, const Instruction& in) noexcept {
  const std::uint64_t mask = active_lanes(wave);
  if (mask == 0) return Flow::next;
  const Row* from = wave.source_row(in, 1);
  const BufferAddress address = buffer_address(wave, in);
  const BufferPlan plan = plan_buffer(wave, address, Element::k_size);
  if (plan.shape == BufferShape::scratch) return store_scratch<Element>(wave, in, plan.scratch, from);
  if (plan.shape == BufferShape::linear) {
    return plan.lanes.mask != 0 ? store_memory<Element>(wave, in, plan.lanes, from) : Flow::next;
  }
  write_lanes<Element>(bounce_place(wave), mask, from);
  return put_buffer(wave, in, address, Element::k_size, false) ? Flow::next : Flow::fault;
}

template <class Element>
struct Buffer {
  static Handler load(Target, Instruction& in) {
    if (!in.memory.to_lds) return buffer_load<Element>;
    if constexpr (Element::k_may_go_to_lds) return buffer_load_to_lds<Element>;
    return nullptr;
  }
  static Handler store(Target, Instruction& in) { return in.memory.to_lds ? nullptr : buffer_store<Element>; }
};

constexpr HandlerEntry k_entries[] = {KERNCAP_LOADS_AND_STORES("buffer", Buffer)};

}  // namespace

void register_buffer(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu
