// DS reads and writes.
#include "softgpu/exec/memory/elements.hpp"
#include "softgpu/exec/memory/families.hpp"
#include "softgpu/exec/memory/lds_address.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

constexpr Row k_lane_times_4 = [] {
  Row row{};
  for (unsigned i = 0; i < k_lanes; ++i) row.lane[i] = 4 * i;
  return row;
}();

template <class Element>
Flow read(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  const auto offset = static_cast<std::uint32_t>(in.offset);
  return load_lds<Element>(wave, in, lds_lanes(wave, in, offset), wave.destination_row(in.dst));
}

template <class Element>
Flow write(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  const auto offset = static_cast<std::uint32_t>(in.offset);
  return store_lds<Element>(wave, in, lds_lanes(wave, in, offset), wave.source_row(in, 1));
}

// Two elements; their offsets count elements, or blocks of 64 elements.
template <class Element, unsigned k_scale>
Flow read2(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  constexpr unsigned k_unit = Element::k_size * k_scale;
  LaneOffsets lanes = lds_lanes_apart(wave, in, static_cast<std::uint32_t>(in.offset) * k_unit);
  Row* to = wave.destination_row(in.dst);
  if (const Flow flow = load_lds<Element>(wave, in, lanes, to); flow != Flow::next) return flow;
  lanes.add = in.offset1 * k_unit;
  return load_lds<Element>(wave, in, lanes, to + Element::k_rows);
}

template <class Element, unsigned k_scale>
Flow write2(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  constexpr unsigned k_unit = Element::k_size * k_scale;
  LaneOffsets lanes = lds_lanes(wave, in, static_cast<std::uint32_t>(in.offset) * k_unit);
  if (const Flow flow = store_lds<Element>(wave, in, lanes, wave.source_row(in, 1)); flow != Flow::next) return flow;
  lanes.add = in.offset1 * k_unit;
  return store_lds<Element>(wave, in, lanes, wave.source_row(in, 2));
}

// Lane i at M0[15:0] + offset + i * 4.
[[nodiscard]] LaneOffsets lanes_by_number(const WaveContext& wave, const Instruction& in) noexcept {
  return {0, &k_lane_times_4, (wave.m0() & 0xFFFF) + static_cast<std::uint32_t>(in.offset), active_lanes(wave)};
}
Flow read_by_number(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  return load_lds<Dwords<1>>(wave, in, lanes_by_number(wave, in), wave.destination_row(in.dst));
}
Flow write_by_number(WaveContext& wave, const Instruction& in) noexcept {
  if (active_lanes(wave) == 0) return Flow::next;
  return store_lds<Dwords<1>>(wave, in, lanes_by_number(wave, in), wave.source_row(in, 1));
}

Flow nothing(WaveContext&, const Instruction&) noexcept { return Flow::next; }

constexpr HandlerEntry k_entries[] = {
    {"ds_read_u8", lds_only<read<U8>>},
    {"ds_read_i8", lds_only<read<I8>>},
    {"ds_read_u16", lds_only<read<U16>>},
    {"ds_read_i16", lds_only<read<I16>>},
    {"ds_read_u8_d16", lds_only<read<U8Low>>},
    {"ds_read_u8_d16_hi", lds_only<read<U8High>>},
    {"ds_read_i8_d16", lds_only<read<I8Low>>},
    {"ds_read_i8_d16_hi", lds_only<read<I8High>>},
    {"ds_read_u16_d16", lds_only<read<U16Low>>},
    {"ds_read_u16_d16_hi", lds_only<read<U16High>>},
    {"ds_read_b32", lds_only<read<Dwords<1>>>},
    {"ds_read_b64", lds_only<read<Dwords<2>>>},
    {"ds_read_b96", lds_only<read<Dwords<3>>>},
    {"ds_read_b128", lds_only<read<Dwords<4>>>},
    {"ds_read2_b32", lds_only<read2<Dwords<1>, 1>>},
    {"ds_read2_b64", lds_only<read2<Dwords<2>, 1>>},
    {"ds_read2st64_b32", lds_only<read2<Dwords<1>, 64>>},
    {"ds_read2st64_b64", lds_only<read2<Dwords<2>, 64>>},
    {"ds_read_addtid_b32", lds_only<read_by_number>},
    {"ds_write_b8", lds_only<write<U8>>},
    {"ds_write_b8_d16_hi", lds_only<write<U8High>>},
    {"ds_write_b16", lds_only<write<U16>>},
    {"ds_write_b16_d16_hi", lds_only<write<U16High>>},
    {"ds_write_b32", lds_only<write<Dwords<1>>>},
    {"ds_write_b64", lds_only<write<Dwords<2>>>},
    {"ds_write_b96", lds_only<write<Dwords<3>>>},
    {"ds_write_b128", lds_only<write<Dwords<4>>>},
    {"ds_write2_b32", lds_only<write2<Dwords<1>, 1>>},
    {"ds_write2_b64", lds_only<write2<Dwords<2>, 1>>},
    {"ds_write2st64_b32", lds_only<write2<Dwords<1>, 64>>},
    {"ds_write2st64_b64", lds_only<write2<Dwords<2>, 64>>},
    {"ds_write_addtid_b32", lds_only<write_by_number>},
    {"ds_nop", always<nothing>},
};

}  // namespace

void register_lds(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu
