// Buffer loads and stores: every descriptor form, in and out of range, and typed formats with values worked out by hand.
#include <algorithm>
#include <string>

#include "reference.hpp"

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

namespace {

constexpr int k_trials = 150;
constexpr unsigned k_address = 4, k_data = 16, k_resource = 12, k_soffset = 20;

struct Descriptor {
  std::uint64_t base = k_memory_va;
  std::uint32_t stride = 0, records = 0, index_stride = k_lanes;
  bool swizzle = false, add_lane = false;
  std::uint32_t select = 0xFAC, number_format = 0, data_format = 0;  // x, y, z, w: 4, 5, 6, 7

  void write(State& s) const {
    std::uint32_t* word = &s.sgpr[k_resource];
    word[0] = static_cast<std::uint32_t>(base);
    word[1] = static_cast<std::uint32_t>(base >> 32) | ((stride & 0x3FFF) << 16) | (swizzle ? 1U << 31 : 0);
    word[2] = records;
    word[3] = select | (number_format << 12) | ((add_lane ? stride >> 14 : data_format) << 15) |
              ((index_stride == 8 ? 0U : index_stride == 16 ? 1U : index_stride == 32 ? 2U : 3U) << 21) |
              (add_lane ? 1U << 23 : 0);
  }
};

void run(Machine& m, const Opcode& opcode, const Fields& f, State before, const Place& place, State& expected) {
  const Transfer transfer(opcode.mnemonic);
  auto& file = f.acc ? expected.agpr : expected.vgpr;
  const std::uint64_t mask = before.sgpr[k_exec] | (std::uint64_t{before.sgpr[k_exec + 1]} << 32);
  Addresses named;
  expect_transfer(transfer, mask, [&](unsigned lane, unsigned at) { return named.note(expected, place(lane, at)); }, &file[k_data]);
  const Fault fault = m.run(m.encode(opcode, f), before);
  const std::string what = std::string(name(m.target)) + " " + std::string(opcode.mnemonic) +
                           (f.offen ? " offen" : "") + (f.idxen ? " idxen" : "");
  if (fault) fail("%s: %s", what.c_str(), describe(fault).c_str());
  else if (same(before, expected, what.c_str())) m.check_transfer(transfer.is_load, named.all(), what.c_str());
}

void random_trial(Machine& m, const Opcode& opcode) {
  const unsigned size = Transfer(opcode.mnemonic).size_bytes;
  Fields f;
  f.addr = k_address;
  f.data0 = k_data;
  f.srsrc = k_resource;
  f.acc = m.random(2) == 0;
  f.offen = m.random(2) == 0;
  f.idxen = m.random(2) == 0;
  f.offset = static_cast<int>(m.random(300));
  State before = m.random_state();
  Descriptor d;
  d.base += m.random(4) * 16;
  d.swizzle = m.random(3) == 0;
  d.add_lane = m.random(3) == 0;
  d.stride = m.random(2) == 0 ? 0 : 4 * m.random(64);
  d.index_stride = 8U << m.random(4);
  std::uint32_t scalar = 0;
  if (m.random(2) == 0) {
    f.soffset = k_soffset;
    scalar = before.sgpr[k_soffset] = m.random(512) * 4;
  }
  Row& index = before.vgpr[k_address];
  Row& offset = before.vgpr[k_address + (f.idxen ? 1 : 0)];
  const bool wild = m.random(3) == 0;  // offsets far beyond the buffer, as masked loads of compilers have them
  const unsigned align = d.swizzle && m.random(4) != 0 ? 4 : 1;
  for (unsigned i = 0; i < k_lanes; ++i) {
    if (f.idxen) index.lane[i] = m.random(80);
    if (f.offen) offset.lane[i] = wild && m.random(3) == 0 ? m.random(~0U) : m.random(600) / align * align;
  }
  if (align == 4) f.offset = f.offset / 4 * 4;
  const bool by_record = d.swizzle && d.stride != 0;
  // Where the range check is by record, offsets are not checked: keep them small, so that they stay in mapped memory.
  d.records = by_record ? m.random(100) : m.random(30000);
  if (by_record) {
    for (unsigned i = 0; i < k_lanes && f.offen; ++i) offset.lane[i] %= 600 / align * align;
    for (unsigned i = 0; i < k_lanes && f.offen; ++i) offset.lane[i] = offset.lane[i] / align * align;
  }
  d.write(before);
  const Row indices = index, offsets = offset;
  State expected = before;
  run(m, opcode, f, before, [&](unsigned lane, unsigned at) -> std::uint8_t* {
    const std::uint64_t record = (f.idxen ? indices.lane[lane] : 0) + (d.add_lane ? lane : 0);
    const auto where = [&](unsigned byte_at) {
      const std::uint64_t byte = std::uint64_t{f.offen ? offsets.lane[lane] : 0} + static_cast<unsigned>(f.offset) + byte_at;
      if (!d.swizzle) return record * d.stride + byte;
      return (record / d.index_stride * d.stride + byte / 4 * 4) * d.index_stride + record % d.index_stride * 4 + byte % 4;
    };
    const unsigned piece = std::min(size, 4U), first = at / 4 * 4;
    const std::uint64_t limit = d.records > scalar ? d.records - scalar : 0;
    const bool in_range = by_record ? record < d.records : where(first) + piece <= limit;
    return in_range ? &expected.memory[d.base - k_memory_va + scalar + where(at)] : nullptr;
  }, expected);
}

// gfx90a's stack: the lane number as the index, all lanes a row, a scalar stack pointer.
void stack_trial(Machine& m, const Opcode& opcode) {
  Fields f;
  f.addr = k_address;
  f.data0 = k_data;
  f.srsrc = k_resource;
  f.offen = m.random(2) == 0;
  f.soffset = k_soffset;
  State before = m.random_state();
  const unsigned frame = m.random(8) * 16, align = 1U << m.random(4);
  before.sgpr[k_soffset] = frame * k_lanes;
  Descriptor d{.base = k_scratch_va, .records = ~0U, .swizzle = true, .add_lane = true};
  d.stride = 4 << 14;  // what the runtime leaves in the format field
  d.write(before);
  f.offset = static_cast<int>(m.random(300) / align * align);
  const bool is_uniform = m.random(2) == 0;
  const unsigned same_offset = m.random(300) / align * align;
  for (unsigned i = 0; i < k_lanes; ++i) {
    before.vgpr[k_address].lane[i] = is_uniform ? same_offset : m.random(300) / align * align;
  }
  const Row offsets = before.vgpr[k_address];
  State expected = before;

  run(m, opcode, f, before, [&](unsigned lane, unsigned at) {
    const std::uint32_t byte = frame + static_cast<unsigned>(f.offset) + (f.offen ? offsets.lane[lane] : 0) + at;
    return &expected.scratch[byte / 4 * (4 * k_lanes) + lane * 4 + byte % 4];
  }, expected);
}

struct Sample {
  unsigned data_format, number_format;
  std::uint32_t memory[2];
  std::uint32_t registers[4];
};
constexpr std::uint32_t k_one = 0x3F800000;

// 2 * 5 = 10-bit floats and the rest, from the layouts of the formats.
constexpr Sample k_samples[] = {
    {1, 0, {0xFF, 0}, {k_one, 0, 0, k_one}},                                   // 8 unorm
    {1, 1, {0x81, 0}, {0xBF800000, 0, 0, k_one}},                              // 8 snorm: -127/127
    {1, 1, {0x80, 0}, {0xBF800000, 0, 0, k_one}},                              // -128 counts as -127
    {2, 4, {0xFFFE, 0}, {0xFFFE, 0, 0, 1}},                                    // 16 uint
    {2, 5, {0xFFFE, 0}, {0xFFFFFFFE, 0, 0, 1}},                                // 16 sint
    {3, 2, {0x0A05, 0}, {0x40A00000, 0x41200000, 0, k_one}},                   // 8_8 uscaled: 5, 10
    {4, 7, {0x40490FDB, 0}, {0x40490FDB, 0, 0, k_one}},                        // 32 float
    {5, 7, {0xC0003C00, 0}, {k_one, 0xC0000000, 0, k_one}},                    // 16_16 float: 1, -2
    {6, 7, {0x3C0 | (0x400 << 11) | (0x1E0U << 22), 0}, {k_one, 0x40000000, k_one, k_one}},  // x and y of 11 bits
    {9, 4, {0x3FF | (1 << 10) | (2 << 20) | (3U << 30), 0}, {0x3FF, 1, 2, 3}}, // 2_10_10_10 uint: x low
    {8, 4, {3 | (0x3FF << 2) | (1 << 12) | (2U << 22), 0}, {3, 0x3FF, 1, 2}},  // 10_10_10_2 uint: x has two bits
    {10, 5, {0x7F80FF01, 0}, {1, 0xFFFFFFFF, 0xFFFFFF80, 0x7F}},               // 8_8_8_8 sint
    {11, 4, {7, 9}, {7, 9, 0, 1}},                                             // 32_32 uint
    {12, 3, {0xFFFF0002, 0x8000}, {0x40000000, 0xBF800000, 0xC7000000, 0}},    // 16_16_16_16 sscaled: 2, -1, -32768, 0
};

void typed(Machine& m, bool from_descriptor) {
  const std::string prefix = from_descriptor ? "buffer" : "tbuffer";
  for (const Sample& sample : k_samples) {
    for (const bool is_load : {true, false}) {
      State before = m.random_state();
      before.sgpr[k_exec] = before.sgpr[k_exec + 1] = ~0U;
      Descriptor d{.records = 4096};
      if (from_descriptor) d.number_format = sample.number_format, d.data_format = sample.data_format;
      d.write(before);
      Fields f;
      f.addr = k_address;
      f.data0 = k_data;
      f.srsrc = k_resource;
      f.offen = true;
      f.dfmt = sample.data_format;
      f.nfmt = sample.number_format;
      State expected;
      const Opcode* opcode = m.find(prefix + (is_load ? "_load" : "_store") + "_format_xyzw");
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        before.vgpr[k_address].lane[lane] = 16 * lane;
        if (is_load) std::memcpy(&before.memory[16 * lane], sample.memory, 8);
        else for (unsigned i = 0; i < 4; ++i) before.vgpr[k_data + i].lane[lane] = sample.registers[i];
      }
      expected = before;
      const unsigned bytes = sample.data_format == 1 ? 1 : sample.data_format <= 3 ? 2 : sample.data_format <= 10 ? 4 : 8;
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        if (is_load) {
          for (unsigned i = 0; i < 4; ++i) expected.vgpr[k_data + i].lane[lane] = sample.registers[i];
        } else {
          std::memcpy(&expected.memory[16 * lane], sample.memory, bytes);
          if (sample.memory[0] == 0x80 && bytes == 1) expected.memory[16 * lane] = 0x81;
        }
      }
      const Fault fault = m.run(m.encode(*opcode, f), before);
      const std::string what = std::string(opcode->mnemonic) + " format " + std::to_string(sample.data_format) + "/" +
                               std::to_string(sample.number_format);
      if (fault) fail("%s: %s", what.c_str(), describe(fault).c_str());
      else same(before, expected, what.c_str());
    }
  }
}

// d16: floats narrowed to f16, two channels a register; destination selects; a missing format stops.
void typed_odds(Machine& m) {
  State before = m.random_state();
  before.sgpr[k_exec] = 1;
  before.sgpr[k_exec + 1] = 0;
  Descriptor d{.records = 4096, .select = 0x1FC & 0xFFF, .number_format = 0, .data_format = 10};
  d.select = 7 | (1 << 3) | (0 << 6) | (4 << 9);  // w, 1, 0, x
  d.write(before);
  Fields f;
  f.data0 = k_data;
  f.srsrc = k_resource;
  const std::uint32_t pixel = 0x000000FF | 0x80000000;  // x = 1, w = 128/255
  std::memcpy(before.memory.data(), &pixel, 4);
  State got = before;
  (void)m.run(m.encode(*m.find("buffer_load_format_xyzw"), f), got);
  const std::uint32_t wanted[4] = {0x3F008081, k_one, 0, k_one};
  for (unsigned i = 0; i < 4; ++i) {
    if (got.vgpr[k_data + i].lane[0] != wanted[i]) fail("selects: register %u is %08x", i, got.vgpr[k_data + i].lane[0]);
  }
  got = before;
  (void)m.run(m.encode(*m.find("buffer_load_format_d16_xyz"), f), got);
  if (got.vgpr[k_data].lane[0] != 0x3C003804) fail("d16 xy: %08x", got.vgpr[k_data].lane[0]);
  if (got.vgpr[k_data + 1].lane[0] != 0) fail("d16 z: %08x, and nothing is left of what the high half held", got.vgpr[k_data + 1].lane[0]);
  got = before;
  (void)m.run(m.encode(*m.find("buffer_load_format_d16_x"), f), got);
  if (got.vgpr[k_data].lane[0] != 0x3804) fail("d16 x: %08x", got.vgpr[k_data].lane[0]);
  got = before;
  (void)m.run(m.encode(*m.find("buffer_load_format_d16_hi_x"), f), got);
  if (got.vgpr[k_data].lane[0] != 0x38040000) fail("d16 hi x: %08x", got.vgpr[k_data].lane[0]);
  d.data_format = 15;
  d.write(before);
  got = before;
  if (m.run(m.encode(*m.find("buffer_load_format_x"), f), got).kind != FaultKind::unsupported_operand) fail("format 15");
}

}  // namespace

int main() {
  for (const Target target : {Target::gfx90a, Target::gfx942}) {
    Machine m(target, 21);
    for (const Opcode& opcode : opcodes(target)) {
      const std::string mnemonic(opcode.mnemonic);
      const bool plain = mnemonic.find("buffer_load_") == 0 || mnemonic.find("buffer_store_") == 0;
      if (!plain || mnemonic.find("format") != std::string::npos) continue;
      for (int i = 0; i < k_trials; ++i) random_trial(m, opcode);
      for (int i = 0; i < k_trials / 3; ++i) stack_trial(m, opcode);
    }
    typed(m, true);
    typed(m, false);
    typed_odds(m);
  }
  return failures() != 0;
}
