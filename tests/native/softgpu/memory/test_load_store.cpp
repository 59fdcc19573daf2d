// Loads and stores of every address form, opcode and target at random addresses, offsets and masks.
#include <cstdio>
#include <string>

#include "reference.hpp"

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

namespace {

constexpr int k_trials = 60;
constexpr unsigned k_address = 4, k_data = 16;  // v4, v5: address; v16..v19: stored data

const char* const k_names[] = {
    "load_ubyte", "load_sbyte", "load_ushort", "load_sshort", "load_dword", "load_dwordx2", "load_dwordx3", "load_dwordx4",
    "load_ubyte_d16", "load_ubyte_d16_hi", "load_sbyte_d16", "load_sbyte_d16_hi", "load_short_d16", "load_short_d16_hi",
    "store_byte", "store_byte_d16_hi", "store_short", "store_short_d16_hi", "store_dword", "store_dwordx2", "store_dwordx3",
    "store_dwordx4"};

// Byte offsets for 64 lanes within [0, limit - size].
void random_offsets(Machine& m, std::uint32_t limit, unsigned size, std::uint32_t (&out)[k_lanes]) {
  const std::uint32_t last = limit - size;
  const unsigned pattern = m.random(6);
  const unsigned align = 1U << m.random(5);
  const std::uint32_t start = m.random(last - 64 * size) / align * align;
  const std::uint32_t stride = m.random((last - start) / 63 + 1) / align * align;
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    switch (pattern) {
      case 0: out[lane] = start + lane * size; break;
      case 1: out[lane] = start; break;
      case 2: out[lane] = start + lane * stride; break;
      case 3: out[lane] = start + m.random(64 * size); break;
      case 4: out[lane] = m.random(last) / align * align; break;
      default: out[lane] = start + (63 - lane) * size; break;
    }
  }
}

// One trial: the registers that the instruction moves, and a name for what went wrong.
struct Trial {
  Machine& m;
  const Opcode& opcode;
  Transfer transfer;
  Fields fields;
  State before, expected;

  Trial(Machine& machine, const Opcode& opcode_) : m(machine), opcode(opcode_), transfer(opcode_.mnemonic), before(m.random_state()) {
    fields.addr = k_address;
    fields.acc = m.random(2) == 1;
    // Loads sometimes overwrite their own address registers.
    fields.vdst = transfer.is_load ? (m.random(3) == 0 && !fields.acc ? k_address - 2 + 2 * m.random(2) : 32) : 0;
    fields.data0 = k_data;
  }
  [[nodiscard]] std::uint64_t mask() const { return std::uint64_t{before.sgpr[k_exec]} | (std::uint64_t{before.sgpr[k_exec + 1]} << 32); }
  // Makes a place from one that takes the state.
  void check(const std::function<std::uint8_t*(State&, unsigned, unsigned)>& place) {
    expected = before;
    const bool is_buffer = opcode.format == Format::mubuf;
    const unsigned first = transfer.is_load && !is_buffer ? fields.vdst : fields.data0;
    auto& file = fields.acc ? expected.agpr : expected.vgpr;
    Addresses named;
    expect_transfer(transfer, mask(), [&](unsigned lane, unsigned at) { return named.note(expected, place(expected, lane, at)); },
                    &file[first]);
    State got = before;
    const Fault fault = m.run(m.encode(opcode, fields), got);
    const std::string what = std::string(name(m.target)) + " " + std::string(opcode.mnemonic);
    if (fault) fail("%s: %s", what.c_str(), describe(fault).c_str());
    else if (same(got, expected, what.c_str())) m.check_transfer(transfer.is_load, named.all(), what.c_str());
  }
};

template <class Check>
void for_each_opcode(Machine& m, const std::string& prefix, Check&& check) {
  for (const char* operation : k_names) {
    const Opcode* opcode = m.find(prefix + operation);
    if (opcode == nullptr) {
      fail("%s has no %s%s", std::string(name(m.target)).c_str(), prefix.c_str(), operation);
      continue;
    }
    for (int i = 0; i < k_trials; ++i) {
      Trial trial(m, *opcode);
      check(trial);
    }
  }
}

void set64(std::uint32_t* words, std::uint64_t value) { std::memcpy(words, &value, 8); }

void global(Trial& t) {
  std::uint32_t offset[k_lanes];
  random_offsets(t.m, k_memory_bytes, t.transfer.size_bytes, offset);
  t.fields.offset = static_cast<int>(t.m.random(8192)) - 4096;
  if (t.m.random(2) == 0) {  // scalar base
    t.fields.saddr = 8;
    // A base that makes the vector offsets anything from small to nearly 2^32.
    const std::uint64_t shift = t.m.random(2) == 0 ? t.m.random(1U << 31) : 0;
    set64(&t.before.sgpr[8], k_memory_va - shift - static_cast<std::uint64_t>(t.fields.offset));
    for (unsigned i = 0; i < k_lanes; ++i) t.before.vgpr[k_address].lane[i] = offset[i] + static_cast<std::uint32_t>(shift);
  } else {
    for (unsigned i = 0; i < k_lanes; ++i) {
      const std::uint64_t va = k_memory_va + offset[i] - static_cast<std::uint64_t>(t.fields.offset);
      t.before.vgpr[k_address].lane[i] = static_cast<std::uint32_t>(va);
      t.before.vgpr[k_address + 1].lane[i] = static_cast<std::uint32_t>(va >> 32);
    }
  }
  t.check([&](State& s, unsigned lane, unsigned at) { return &s.memory[offset[lane] + at]; });
}

std::uint8_t* scratch_byte(State& s, unsigned lane, std::uint32_t byte) {
  return &s.scratch[byte / 4 * (4 * k_lanes) + lane * 4 + byte % 4];
}

// All three apertures in one wave, or only one of them.
void flat(Trial& t) {
  std::uint32_t memory[k_lanes], lds[k_lanes], scratch[k_lanes], kind[k_lanes];
  const unsigned size = t.transfer.size_bytes;
  t.fields.offset = static_cast<int>(t.m.random(4096));
  random_offsets(t.m, k_memory_bytes, size, memory);
  random_offsets(t.m, k_lds_bytes, size, lds);
  // Scratch offsets too small for the constant offset wrap around; they are not made here.
  t.fields.offset %= static_cast<int>(k_scratch_bytes_per_lane / 2);
  const unsigned uniform = t.m.random(k_scratch_bytes_per_lane - 16);
  const bool is_uniform = t.m.random(2) == 0;
  const unsigned only = t.m.random(5);
  for (unsigned i = 0; i < k_lanes; ++i) {
    const auto offset = static_cast<std::uint32_t>(t.fields.offset);
    scratch[i] = std::max(offset, is_uniform ? uniform : t.m.random(k_scratch_bytes_per_lane - size));
    lds[i] = std::max(offset, lds[i]);
    kind[i] = only < 3 ? only : t.m.random(3);
    const std::uint64_t va = kind[i] == 0 ? k_memory_va + memory[i]
                             : kind[i] == 1 ? t.m.wave.shared_base + lds[i] : t.m.wave.private_base + scratch[i];
    t.before.vgpr[k_address].lane[i] = static_cast<std::uint32_t>(va - offset);
    t.before.vgpr[k_address + 1].lane[i] = static_cast<std::uint32_t>((va - offset) >> 32);
  }
  t.check([&](State& s, unsigned lane, unsigned at) {
    if (kind[lane] == 0) return &s.memory[memory[lane] + at];
    return kind[lane] == 1 ? &s.lds[lds[lane] + at] : scratch_byte(s, lane, scratch[lane] + at);
  });
}

void scratch(Trial& t) {
  const unsigned align = 1U << t.m.random(5);
  bool vector = t.m.random(2) == 0, scalar = t.m.random(2) == 0;
  if (t.m.target == Target::gfx90a) vector = !scalar;  // one or the other
  t.fields.offset = static_cast<int>(t.m.random(200)) - (vector || scalar ? 100 : 0);
  t.fields.offset = t.fields.offset / static_cast<int>(align) * static_cast<int>(align);
  t.fields.sve = vector && t.m.target != Target::gfx90a;
  std::uint32_t base = static_cast<std::uint32_t>(t.fields.offset);
  if (scalar) {
    t.fields.saddr = 10;
    base += t.before.sgpr[10] = (200 + t.m.random(300)) / align * align;
  }
  const bool is_uniform = t.m.random(2) == 0;
  const std::uint32_t same_offset = 100 + t.m.random(200);
  for (unsigned i = 0; i < k_lanes && vector; ++i) {
    t.before.vgpr[k_address].lane[i] = (is_uniform ? same_offset : 100 + t.m.random(300)) / align * align;
    // A stray offset in a lane that takes no part must not matter.
    if (((t.mask() >> i) & 1) == 0) t.before.vgpr[k_address].lane[i] = t.m.random(~0U);
  }
  const Row address = t.before.vgpr[k_address];
  if (!vector && !scalar) base = static_cast<std::uint32_t>(t.fields.offset);
  t.check([&](State& s, unsigned lane, unsigned at) { return scratch_byte(s, lane, base + (vector ? address.lane[lane] : 0) + at); });
}

}  // namespace

int main() {
  for (const Target target : {Target::gfx90a, Target::gfx942}) {
    Machine m(target, 1 + static_cast<unsigned>(target));
    // Where a program says where scratch memory is, it may say any address: then it is not the wave's own.
    if (target == Target::gfx90a) m.wave.scratch_base = k_scratch_va + 2 * k_scratch_bytes_per_lane * k_lanes;
    for_each_opcode(m, "global_", global);
    for_each_opcode(m, "flat_", flat);
    for_each_opcode(m, "scratch_", scratch);
  }
  return failures() != 0;
}
