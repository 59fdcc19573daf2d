// buffer_load_format_*, buffer_store_format_* with the descriptor's format, tbuffer_* with the instruction's. Lane by lane:
// compute kernels hardly use them.
#include "softgpu/exec/memory/buffer_address.hpp"
#include "softgpu/exec/memory/families.hpp"
#include "softgpu/exec/memory/formats.hpp"
#include "softgpu/exec/memory/vector_address.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using Channels = std::array<std::uint32_t, 4>;

enum class Width : std::uint8_t { full, d16, d16_high };

struct Format {
  DataFormat data;
  NumberFormat number;
};

[[nodiscard]] Format format_of(const Instruction& in, const BufferDescriptor& buffer) noexcept {
  const bool typed = in.opcode->format == softgpu::Format::mtbuf;
  return {data_format(typed ? in.memory.data_format : buffer.data_format),
          static_cast<NumberFormat>(typed ? in.memory.number_format : buffer.number_format)};
}

Flow stop_at_format(WaveContext& wave, const Instruction& in) noexcept {
  return wave.stop(in, FaultKind::unsupported_operand, 0, 0, AccessKind::none, 0, "no such buffer format");
}

// MUBUF applies the descriptor's destination selects: 0 and 1 are constants, 4..7 the channels.
[[nodiscard]] Channels select(const Channels& channels, const BufferDescriptor& buffer, NumberFormat number) noexcept {
  const bool is_integer = number == NumberFormat::uint || number == NumberFormat::sint;
  Channels out{};
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned select = buffer.select[i];
    out[i] = select >= 4 ? channels[select - 4] : select == 1 ? (is_integer ? 1U : 0x3F800000U) : 0U;
  }
  return out;
}

template <unsigned k_channels, Width k_width>
void write_registers(Row* to, unsigned lane, const Channels& values, NumberFormat number) noexcept {
  if constexpr (k_width == Width::full) {
    for (unsigned i = 0; i < k_channels; ++i) to[i].lane[lane] = values[i];
    return;
  }
  // Two channels a register; a half without one becomes zero (see Half).
  for (unsigned i = 0; i < k_channels; i += 2) {
    const std::uint32_t first = narrow_to_d16(values[i], number);
    const std::uint32_t second = i + 1 < k_channels ? narrow_to_d16(values[i + 1], number) : 0;
    to[i / 2].lane[lane] = k_width == Width::d16_high ? first << 16 : first | (second << 16);
  }
}

template <unsigned k_channels, Width k_width>
[[nodiscard]] Channels read_registers(const Row* from, unsigned lane, NumberFormat number) noexcept {
  Channels values{};
  for (unsigned i = 0; i < k_channels; ++i) {
    if constexpr (k_width == Width::full) {
      values[i] = from[i].lane[lane];
    } else {
      const bool high = k_width == Width::d16_high || i % 2 == 1;
      values[i] = widen_from_d16((from[i / 2].lane[lane] >> (high ? 16 : 0)) & 0xFFFF, number);
    }
  }
  return values;
}

template <unsigned k_channels, Width k_width>
Flow load(WaveContext& wave, const Instruction& in, Row* to) noexcept {
  const std::uint64_t mask = active_lanes(wave);
  if (mask == 0) return Flow::next;
  const BufferAddress address = buffer_address(wave, in);
  const Format format = format_of(in, address.buffer);
  if (!is_valid(format.data, format.number)) return stop_at_format(wave, in);
  const unsigned size_bytes = format.data.size_bytes;
  if (!fetch_buffer(wave, in, address, size_bytes, true)) return Flow::fault;
  const bool untyped = in.opcode->format == softgpu::Format::mubuf;
  // Out of range reads 0 in every channel, also in those that the format lacks.
  std::uint64_t in_range = 0;
  for_each_lane(mask, [&](unsigned lane) {
    in_range |= std::uint64_t{address.place(lane, 0, size_bytes).in_range} << lane;
  });
  for_each_lane(mask, [&](unsigned lane) {
    Channels values{};
    if (((in_range >> lane) & 1) != 0) {
      values = unpack(bounce_place(wave)(lane), format.data, format.number);
      if (untyped) values = select(values, address.buffer, format.number);
    }
    write_registers<k_channels, k_width>(to, lane, values, format.number);
  });
  return Flow::next;
}

template <unsigned k_channels, Width k_width>
Flow load_format(WaveContext& wave, const Instruction& in) noexcept {
  return load<k_channels, k_width>(wave, in, wave.destination_row(in.dst));
}

Flow load_format_to_lds(WaveContext& wave, const Instruction& in) noexcept {
  const Flow flow = load<1, Width::full>(wave, in, &wave.worker->scratch[k_lds_values]);
  return flow == Flow::next ? put_in_lds(wave, in) : flow;
}

template <unsigned k_channels, Width k_width>
Flow store_format(WaveContext& wave, const Instruction& in) noexcept {
  const std::uint64_t mask = active_lanes(wave);
  if (mask == 0) return Flow::next;
  const BufferAddress address = buffer_address(wave, in);
  const Format format = format_of(in, address.buffer);
  if (!is_valid(format.data, format.number)) return stop_at_format(wave, in);
  const Row* from = wave.source_row(in, 1);
  for_each_lane(mask, [&](unsigned lane) {
    const Channels values = read_registers<k_channels, k_width>(from, lane, format.number);
    pack(bounce_place(wave)(lane), values, format.data, format.number);
  });
  return put_buffer(wave, in, address, format.data.size_bytes, true) ? Flow::next : Flow::fault;
}

template <unsigned k_channels, Width k_width>
Handler make_load(Target, Instruction& in) {
  if (!in.memory.to_lds) return load_format<k_channels, k_width>;
  return k_channels == 1 && k_width == Width::full ? load_format_to_lds : nullptr;
}
template <unsigned k_channels, Width k_width>
Handler make_store(Target, Instruction& in) {
  return in.memory.to_lds ? nullptr : store_format<k_channels, k_width>;
}

#define KERNCAP_FORMATS(prefix)                                             \
  {prefix "_load_format_x", make_load<1, Width::full>},                     \
  {prefix "_load_format_xy", make_load<2, Width::full>},                    \
  {prefix "_load_format_xyz", make_load<3, Width::full>},                   \
  {prefix "_load_format_xyzw", make_load<4, Width::full>},                  \
  {prefix "_store_format_x", make_store<1, Width::full>},                   \
  {prefix "_store_format_xy", make_store<2, Width::full>},                  \
  {prefix "_store_format_xyz", make_store<3, Width::full>},                 \
  {prefix "_store_format_xyzw", make_store<4, Width::full>},                \
  {prefix "_load_format_d16_x", make_load<1, Width::d16>},                  \
  {prefix "_load_format_d16_xy", make_load<2, Width::d16>},                 \
  {prefix "_load_format_d16_xyz", make_load<3, Width::d16>},                \
  {prefix "_load_format_d16_xyzw", make_load<4, Width::d16>},               \
  {prefix "_store_format_d16_x", make_store<1, Width::d16>},                \
  {prefix "_store_format_d16_xy", make_store<2, Width::d16>},               \
  {prefix "_store_format_d16_xyz", make_store<3, Width::d16>},              \
  {prefix "_store_format_d16_xyzw", make_store<4, Width::d16>}

constexpr HandlerEntry k_entries[] = {
    KERNCAP_FORMATS("buffer"), KERNCAP_FORMATS("tbuffer"),
    {"buffer_load_format_d16_hi_x", make_load<1, Width::d16_high>},
    {"buffer_store_format_d16_hi_x", make_store<1, Width::d16_high>},
};

}  // namespace

void register_typed_buffer(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu
