// DS reads and writes, exchanges of two words, loads that go to the LDS, and the instructions that cross lanes.
#include <bit>
#include <string>

#include "reference.hpp"

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

namespace {

constexpr int k_trials = 80;
constexpr unsigned k_address = 4, k_data = 16, k_second = 24;

std::uint64_t mask_of(const State& s) { return s.sgpr[k_exec] | (std::uint64_t{s.sgpr[k_exec + 1]} << 32); }

void run(Machine& m, const Opcode& opcode, const Fields& f, State before, const State& expected) {
  const Fault fault = m.run(m.encode(opcode, f), before);
  const std::string what = std::string(name(m.target)) + " " + std::string(opcode.mnemonic);
  if (fault) fail("%s: %s", what.c_str(), describe(fault).c_str());
  else same(before, expected, what.c_str());
}

// Lane addresses in one of several patterns; the sum with `offset` wraps around at 2^32.
void random_addresses(Machine& m, State& s, unsigned size, std::uint32_t offset, std::uint32_t limit, std::uint32_t (&at)[k_lanes]) {
  const unsigned pattern = m.random(4), align = 1U << m.random(5);
  const std::uint32_t start = m.random(limit - 64 * 16) / align * align;
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    at[lane] = pattern == 0 ? start + lane * size : pattern == 1 ? start : m.random(limit - size) / align * align;
    s.vgpr[k_address].lane[lane] = at[lane] - offset;
    if (((mask_of(s) >> lane) & 1) == 0) s.vgpr[k_address].lane[lane] = m.random(~0U);
  }
}

// An element that lies beyond the LDS in part is beyond it.
bool is_inside(std::uint32_t at, unsigned size) { return std::uint64_t{at} + size <= k_lds_bytes; }

// Some lanes just over the edge, some at the address by which Tensile reads zeros, some at the end of all addresses.
void move_some_beyond(Machine& m, State& s, unsigned size, std::uint32_t offset, std::uint32_t (&at)[k_lanes]) {
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    const std::uint32_t places[] = {at[lane], k_lds_bytes - size + 1 + m.random(size), 0xF00000, 0U - size};
    at[lane] = places[m.random(4)];
    s.vgpr[k_address].lane[lane] = at[lane] - offset;
  }
}

void one_address(Machine& m, const Opcode& opcode) {
  const Transfer transfer(opcode.mnemonic);
  for (int i = 0; i < k_trials; ++i) {
    State before = m.random_state();
    Fields f;
    const std::uint32_t offset = m.random(4) == 0 ? 0 : m.random(65536);
    f.offset = static_cast<int>(offset & 0xFF), f.offset1 = static_cast<int>(offset >> 8);
    f.addr = k_address, f.data0 = k_data, f.acc = m.random(2) == 0;
    f.vdst = m.random(3) == 0 && !f.acc ? k_address - 2 * m.random(2) : 32;
    std::uint32_t at[k_lanes];
    random_addresses(m, before, transfer.size_bytes, offset, k_lds_bytes, at);
    if (i % 4 == 0) move_some_beyond(m, before, transfer.size_bytes, offset, at);
    State expected = before;
    auto& file = f.acc ? expected.agpr : expected.vgpr;
    expect_transfer(transfer, mask_of(before), [&](unsigned lane, unsigned byte) -> std::uint8_t* {
      return is_inside(at[lane], transfer.size_bytes) ? &expected.lds[at[lane] + byte] : nullptr;
    }, &file[transfer.is_load ? f.vdst : k_data]);
    run(m, opcode, f, before, expected);
  }
}

// ds_read2, ds_write2 and ds_wrxchg2, with and without st64.
void two_addresses(Machine& m, const Opcode& opcode) {
  const std::string mnemonic(opcode.mnemonic);
  const unsigned size = mnemonic.ends_with("64") ? 8 : 4, rows = size / 4;
  const unsigned unit = mnemonic.find("st64") != std::string::npos ? size * 64 : size;
  const bool reads = mnemonic.find("write") == std::string::npos, writes = mnemonic.find("read") == std::string::npos;
  for (int i = 0; i < k_trials; ++i) {
    State before = m.random_state();
    Fields f;
    f.offset = static_cast<int>(m.random(8)), f.offset1 = static_cast<int>(m.random(8));
    f.addr = k_address, f.data0 = k_data, f.data1 = k_second, f.acc = m.random(2) == 0;
    f.vdst = m.random(3) == 0 && !f.acc ? k_address - 2 * m.random(2) : 32;
    if (writes && reads && m.random(3) == 0) f.vdst = k_second;
    std::uint32_t at[k_lanes];
    for (unsigned lane = 0; lane < k_lanes; ++lane) {
      at[lane] = 8 * m.random(64);
      // Each of the two places is inside or beyond by itself.
      if (i % 4 == 0 && m.random(2) == 0) at[lane] = k_lds_bytes - 8 * (1 + m.random(4 * unit / 8));
      before.vgpr[k_address].lane[lane] = at[lane];
    }
    State expected = before;
    const auto& source = f.acc ? before.agpr : before.vgpr;
    auto& to = f.acc ? expected.agpr : expected.vgpr;
    for (unsigned part = 0; part < 2; ++part) {
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        if (((mask_of(before) >> lane) & 1) == 0) continue;
        const std::uint32_t start = at[lane] + unit * static_cast<unsigned>(part == 0 ? f.offset : f.offset1);
        std::uint8_t* word = is_inside(start, size) ? &expected.lds[start] : nullptr;
        for (unsigned row = 0; row < rows; ++row) {
          std::uint32_t old = 0;
          if (word != nullptr) std::memcpy(&old, word + 4 * row, 4);
          if (writes && word != nullptr) std::memcpy(word + 4 * row, &source[(part == 0 ? k_data : k_second) + row].lane[lane], 4);
          if (reads) to[f.vdst + part * rows + row].lane[lane] = old;
        }
      }
    }
    run(m, opcode, f, before, expected);
  }
}

// The patterns of ds_swizzle that compilers use, and one of each other notation, with sources given by hand.
unsigned swizzle_source(unsigned pattern, unsigned lane) {
  const unsigned i = lane % 32, half = lane / 32 * 32;
  switch (pattern) {
    case 0x041F: return half + (i ^ 1);                 // swap neighbours
    case 0x401F: return half + (i ^ 16);                // swap rows
    case 0x7C1F: return half + (31 - i);                // reverse
    case 0x0018: return half + i / 8 * 8;               // broadcast the first of eight
    case 0x8055: return lane / 4 * 4 + 1;               // second of each quad
    case 0x801B: return lane / 4 * 4 + 3 - lane % 4;    // reverse each quad
    case 0xC020: return half + (i + 1) % 32;            // rotate by one
    case 0xC420: return half + (i + 31) % 32;           // the other way
    case 0xC118: return half + i / 8 * 8 + (i % 8);     // rotation by 8 outside mask 0x18: (i + 8) & 7
    case 0xE000: {                                      // bit reversal
      unsigned reversed = 0;
      for (unsigned bit = 0; bit < 5; ++bit) reversed = reversed * 2 + ((i >> bit) & 1);
      return half + reversed;
    }
    case 0xE01F: return lane;
    default: fail("no expectation for pattern %x", pattern); return 0;
  }
}

void cross_lane(Machine& m) {
  for (const unsigned pattern : {0x041FU, 0x401FU, 0x7C1FU, 0x0018U, 0x8055U, 0x801BU, 0xC020U, 0xC420U, 0xC118U, 0xE000U, 0xE01FU}) {
    for (int i = 0; i < 8; ++i) {
      State before = m.random_state(), expected = before;
      Fields f;
      f.addr = k_address, f.vdst = i % 2 == 0 ? k_address : 32;
      f.offset = static_cast<int>(pattern & 0xFF), f.offset1 = static_cast<int>(pattern >> 8);
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        if (((mask_of(before) >> lane) & 1) == 0) continue;
        const unsigned from = swizzle_source(pattern, lane);
        const bool sends = ((mask_of(before) >> from) & 1) != 0;
        expected.vgpr[f.vdst].lane[lane] = sends ? before.vgpr[k_address].lane[from] : 0;
      }
      run(m, *m.find("ds_swizzle_b32"), f, before, expected);
    }
  }
  for (const bool backward : {true, false}) {
    for (int i = 0; i < k_trials; ++i) {
      State before = m.random_state(), expected = before;
      Fields f;
      f.addr = k_address, f.data0 = k_data, f.vdst = i % 3 == 0 ? k_data : i % 3 == 1 ? k_address : 32;
      f.offset = static_cast<int>(4 * m.random(8));
      std::uint32_t sent[k_lanes] = {};
      const auto lane_at = [&](unsigned lane) {
        return (before.vgpr[k_address].lane[lane] + static_cast<unsigned>(f.offset)) / 4 % k_lanes;
      };
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        if (((mask_of(before) >> lane) & 1) != 0) sent[lane_at(lane)] = before.vgpr[k_data].lane[lane];
      }
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        if (((mask_of(before) >> lane) & 1) == 0) continue;
        const unsigned from = lane_at(lane);
        const std::uint32_t pulled = ((mask_of(before) >> from) & 1) != 0 ? before.vgpr[k_data].lane[from] : 0;
        expected.vgpr[f.vdst].lane[lane] = backward ? pulled : sent[lane];
      }
      run(m, *m.find(backward ? "ds_bpermute_b32" : "ds_permute_b32"), f, before, expected);
    }
  }
}

// Counters, addresses by lane number and memory-to-LDS loads all start at M0[15:0].
void by_m0(Machine& m) {
  for (int i = 0; i < k_trials; ++i) {
    State before = m.random_state();
    const unsigned start = 4 * m.random(1000), offset = 4 * m.random(60);
    before.sgpr[124] = start | 0xABCD0000;
    const std::uint64_t mask = mask_of(before);
    Fields f;
    f.vdst = 32, f.data0 = k_data;
    f.offset = static_cast<int>(offset);
    std::uint8_t* at;
    for (const bool append : {true, false}) {
      State expected = before;
      at = &expected.lds[start + offset];
      std::uint32_t old, value;
      std::memcpy(&old, at, 4);
      const auto count = static_cast<std::uint32_t>(std::popcount(mask));
      value = append ? old + count : old - count;
      std::memcpy(at, &value, 4);
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        if (((mask >> lane) & 1) != 0) expected.vgpr[32].lane[lane] = old;
      }
      run(m, *m.find(append ? "ds_append" : "ds_consume"), f, before, expected);
    }
    for (const bool is_load : {true, false}) {
      State expected = before;
      const Transfer dword(is_load ? "read" : "write");
      expect_transfer(dword, mask, [&](unsigned lane, unsigned byte) { return &expected.lds[start + offset + 4 * lane + byte]; },
                      &expected.vgpr[is_load ? 32 : k_data]);
      run(m, *m.find(is_load ? "ds_read_addtid_b32" : "ds_write_addtid_b32"), f, before, expected);
    }
    // From memory: gfx90a has a bit for it, gfx942 opcodes.
    const bool by_bit = m.target == Target::gfx90a, is_byte = m.random(2) == 0;
    f.lds = by_bit;
    f.addr = k_address, f.saddr = 8;
    std::memcpy(&before.sgpr[8], &k_memory_va, 8);
    for (auto& value : before.vgpr[k_address].lane) value = m.random(4096);
    const Transfer load(is_byte ? "load_sbyte" : "load_dword");
    const char* mnemonic = by_bit ? (is_byte ? "global_load_sbyte" : "global_load_dword")
                                  : (is_byte ? "global_load_lds_sbyte" : "global_load_lds_dword");
    State expected = before;
    Row values{};
    expect_transfer(load, mask, [&](unsigned lane, unsigned byte) {
      return &expected.memory[before.vgpr[k_address].lane[lane] + offset + byte];
    }, &values);
    expect_transfer(Transfer("write"), mask, [&](unsigned lane, unsigned byte) { return &expected.lds[start + offset + 4 * lane + byte]; }, &values);
    run(m, *m.find(mnemonic), f, before, expected);
    // The same through a buffer descriptor; lanes out of range bring zeros.
    const std::uint32_t words[4] = {static_cast<std::uint32_t>(k_memory_va), static_cast<std::uint32_t>(k_memory_va >> 32), 2048, 0};
    std::memcpy(&before.sgpr[12], words, 16);
    f.lds = true, f.srsrc = 12, f.offen = true;
    expected = before;
    expect_transfer(load, mask, [&](unsigned lane, unsigned byte) -> std::uint8_t* {
      const std::uint32_t from = before.vgpr[k_address].lane[lane] + offset;
      return from + load.size_bytes <= 2048 ? &expected.memory[from + byte] : nullptr;
    }, &values);
    expect_transfer(Transfer("write"), mask, [&](unsigned lane, unsigned byte) { return &expected.lds[start + offset + 4 * lane + byte]; }, &values);
    run(m, *m.find(is_byte ? "buffer_load_sbyte" : "buffer_load_dword"), f, before, expected);
  }
}

// Atomics, counters and flat accesses beyond the LDS: 0 comes back and nothing changes. Lane 1 is beyond, lane 0 inside.
void beyond_the_end(Machine& m) {
  State before = m.random_state();
  before.sgpr[k_exec] = 3;
  before.sgpr[k_exec + 1] = 0;
  before.vgpr[k_address].lane[0] = 8, before.vgpr[k_address].lane[1] = k_lds_bytes;
  before.vgpr[k_data].lane[0] = before.vgpr[k_data].lane[1] = 5;
  std::uint32_t word;
  std::memcpy(&word, &before.lds[8], 4);
  Fields f;
  f.addr = k_address, f.data0 = k_data, f.vdst = 32;
  State expected = before;
  const std::uint32_t sum = word + 5;
  std::memcpy(&expected.lds[8], &sum, 4);
  run(m, *m.find("ds_add_u32"), f, before, expected);
  expected.vgpr[32].lane[0] = word, expected.vgpr[32].lane[1] = 0;
  run(m, *m.find("ds_add_rtn_u32"), f, before, expected);

  before.vgpr[k_address + 1].lane[0] = before.vgpr[k_address + 1].lane[1] = 1U << 16;  // the LDS aperture
  expected = before;
  expected.vgpr[32].lane[0] = word, expected.vgpr[32].lane[1] = 0;
  run(m, *m.find("flat_load_dword"), f, before, expected);
  expected = before;
  std::memcpy(&expected.lds[8], &before.vgpr[k_data].lane[0], 4);
  run(m, *m.find("flat_store_dword"), f, before, expected);

  before.sgpr[124] = k_lds_bytes;
  for (const char* counter : {"ds_append", "ds_consume"}) {
    expected = before;
    expected.vgpr[32].lane[0] = expected.vgpr[32].lane[1] = 0;
    run(m, *m.find(counter), f, before, expected);
  }
}

void conditional_exchange(Machine& m) {
  State before = m.random_state();
  before.sgpr[k_exec] = 3;
  before.sgpr[k_exec + 1] = 0;
  const std::uint32_t lds[4] = {0x11111111, 0x22222222, 0x33333333, 0x44444444};
  std::memcpy(before.lds.data(), lds, 16);
  before.vgpr[k_address].lane[0] = 4;  // down to 0
  before.vgpr[k_address].lane[1] = 8;
  before.vgpr[k_data].lane[0] = 0x80000005, before.vgpr[k_data + 1].lane[0] = 0x7FFFFFFF;
  before.vgpr[k_data].lane[1] = 0x00000005, before.vgpr[k_data + 1].lane[1] = 0xFFFFFFFF;
  State expected = before;
  const std::uint32_t after[4] = {5, 0x22222222, 0x33333333, 0x7FFFFFFF};
  std::memcpy(expected.lds.data(), after, 16);
  for (unsigned lane = 0; lane < 2; ++lane) {
    expected.vgpr[32].lane[lane] = lds[2 * lane];
    expected.vgpr[33].lane[lane] = lds[2 * lane + 1];
  }
  Fields f;
  f.addr = k_address, f.data0 = k_data, f.vdst = 32;
  run(m, *m.find("ds_condxchg32_rtn_b64"), f, before, expected);
}

}  // namespace

int main() {
  for (const Target target : {Target::gfx90a, Target::gfx942}) {
    Machine m(target, 31);
    for (const Opcode& opcode : opcodes(target)) {
      const std::string mnemonic(opcode.mnemonic);
      if (opcode.format != Format::ds || mnemonic.find("addtid") != std::string::npos) continue;
      const bool pair = mnemonic.find("read2") == 3 || mnemonic.find("write2") == 3 || mnemonic.find("wrxchg2") == 3;
      if (pair) two_addresses(m, opcode);
      else if (mnemonic.find("ds_read_") == 0 || mnemonic.find("ds_write_") == 0) one_address(m, opcode);
    }
    cross_lane(m);
    by_m0(m);
    conditional_exchange(m);
    beyond_the_end(m);
  }
  return failures() != 0;
}
