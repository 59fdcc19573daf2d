// Atomics on memory and in the LDS: every opcode of every target, with lanes that collide. Lanes work in rising order.
#include <algorithm>
#include <cstdio>
#include <set>

#include "reference.hpp"

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

namespace {

constexpr int k_trials = 30;
constexpr unsigned k_address = 4, k_data = 16, k_second = 24, k_result = 32;

// Interesting operands for the kind of operation: few distinct integers, so that compares hit; floats that are no NaN
// where the sum's payload would be in question.
void random_words(Machine& m, const std::string& operation, unsigned size, std::uint8_t* bytes, std::size_t count) {
  const bool is_sum = operation.find("add_") != std::string::npos && operation.find("f") != std::string::npos;
  for (std::size_t i = 0; i + size <= count; i += size) {
    std::uint64_t value = (std::uint64_t{m.random(~0U)} << 32) | m.random(~0U);
    if (operation.find("_f") == std::string::npos && operation.find("bf") == std::string::npos) {
      if (m.random(2) == 0) value = m.random(4);
      if (m.random(4) == 0) value = ~std::uint64_t{m.random(4)};
    } else if (is_sum) {
      const auto limit_exponent = [&](unsigned bits, unsigned fraction, unsigned at) {
        const std::uint64_t ones = ((std::uint64_t{1} << (bits - 1 - fraction)) - 1) << fraction;
        if (((value >> at) & ones) == ones) value &= ~(std::uint64_t{1} << (at + fraction));
      };
      if (operation == "pk_add_f16") limit_exponent(16, 10, 0), limit_exponent(16, 10, 16);
      else if (operation == "pk_add_bf16") limit_exponent(16, 7, 0), limit_exponent(16, 7, 16);
      else if (size == 4) limit_exponent(32, 23, 0);
      else limit_exponent(64, 52, 0);
      // A denormal, sometimes.
      if (m.random(4) == 0) value &= size == 8 ? 0x800FFFFFFFFFFFFFULL : 0x807FFFFFULL;
    }
    std::memcpy(bytes + i, &value, size);
  }
}

struct AtomicTrial {
  Machine& m;
  std::string operation;
  unsigned size;
  bool returns, is_lds_opcode;

  // place: the word of a lane in the expected state; null: out of range, does nothing and returns 0.
  void check(const Opcode& opcode, Fields fields, const State& before, const Place& place, State& expected) {
    const bool flush = m.target == Target::gfx90a && !is_lds_opcode;
    auto& file = fields.acc ? expected.agpr : expected.vgpr;
    const unsigned result = opcode.format == Format::mubuf ? k_data : k_result;
    const std::uint64_t mask = before.sgpr[k_exec] | (std::uint64_t{before.sgpr[k_exec + 1]} << 32);
    const auto& source = fields.acc ? before.agpr : before.vgpr;
    Addresses read, written;
    for (unsigned lane = 0; lane < k_lanes; ++lane) {
      if (((mask >> lane) & 1) == 0) continue;
      const auto word = [&](unsigned first) {
        return source[first].lane[lane] | (size == 8 ? std::uint64_t{source[first + 1].lane[lane]} << 32 : 0);
      };
      const std::uint64_t b = is_lds_opcode ? word(k_second) : word(k_data + size / 4);
      std::uint64_t old = 0;
      if (std::uint8_t* at = place(lane, 0)) {
        std::memcpy(&old, at, size);
        const std::uint64_t value = expect_atomic(operation, size, old, word(k_data), b, flush);
        std::memcpy(at, &value, size);
        for (unsigned i = 0; i < size; ++i) {
          read.note(expected, at + i);
          if (operation != "cmpswap" || old == b) written.note(expected, at + i);
        }
      }
      if (!returns) continue;
      for (unsigned i = 0; i < size / 4; ++i) file[result + i].lane[lane] = static_cast<std::uint32_t>(old >> (32 * i));
    }
    State got = before;
    const Fault fault = m.run(m.encode(opcode, fields), got);
    const std::string what = std::string(name(m.target)) + " " + std::string(opcode.mnemonic);
    if (fault) fail("%s: %s", what.c_str(), describe(fault).c_str());
    else if (same(got, expected, what.c_str())) m.check_record(read.all(), written.all(), what.c_str());
  }
};

void fill(Machine& m, State& s, const std::string& operation, unsigned size) {
  for (unsigned i : {k_data, k_second}) {
    for (auto* file : {&s.vgpr, &s.agpr}) {
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        std::uint8_t bytes[16];
        random_words(m, operation, size, bytes, 16);
        for (unsigned r = 0; r < 4; ++r) std::memcpy(&(*file)[i + r].lane[lane], bytes + 4 * r, 4);
      }
    }
  }
  random_words(m, operation, size, s.lds.data(), s.lds.size());
  random_words(m, operation, size, s.memory.data(), 4096);
  random_words(m, operation, size, s.memory.data() + k_extent_bytes - 2048, 4096);
}

// Slots of 8 bytes in one extent, or on both sides of a boundary; few of them, so that lanes collide.
std::uint32_t slot(Machine& m) { return (m.random(2) == 0 ? 0 : k_extent_bytes - 64) + 8 * m.random(16); }

void memory_atomic(Machine& m, const Opcode& opcode, const std::string& operation, unsigned size) {
  for (int i = 0; i < k_trials; ++i) {
    AtomicTrial t{m, operation, size, m.random(2) == 0, false};
    State before = m.random_state();
    fill(m, before, operation, size);
    Fields f;
    f.addr = k_address;
    f.data0 = k_data;
    f.vdst = k_result;
    f.glc = t.returns;
    f.acc = m.random(2) == 0;
    std::uint32_t at[k_lanes];
    bool in_lds[k_lanes], out[k_lanes];
    const bool one_word = m.random(4) == 0;
    for (unsigned lane = 0; lane < k_lanes; ++lane) {
      at[lane] = one_word && lane != 0 ? at[0] : slot(m);
      in_lds[lane] = out[lane] = false;
    }
    Row* address = &before.vgpr[k_address];
    if (opcode.format == Format::mubuf) {
      const std::uint32_t records = k_extent_bytes;  // slots beyond the first extent are out of range
      const std::uint32_t words[4] = {static_cast<std::uint32_t>(k_memory_va), static_cast<std::uint32_t>(k_memory_va >> 32), records, 0};
      std::copy_n(words, 4, &before.sgpr[12]);
      f.srsrc = 12;
      f.offen = true;
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        address[0].lane[lane] = at[lane];
        out[lane] = at[lane] + size > records;
      }
    } else {
      const bool apertures = opcode.format == Format::flat;
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        in_lds[lane] = apertures && m.random(3) == 0;
        if (in_lds[lane]) at[lane] = 8 * m.random(32);
        const std::uint64_t va = (in_lds[lane] ? m.wave.shared_base : k_memory_va) + at[lane];
        address[0].lane[lane] = static_cast<std::uint32_t>(va);
        address[1].lane[lane] = static_cast<std::uint32_t>(va >> 32);
      }
    }
    // Lanes of one aperture go together, so collisions are in lane order within each.
    State expected = before;
    t.check(opcode, f, before, [&](unsigned lane, unsigned) -> std::uint8_t* {
      return out[lane] ? nullptr : in_lds[lane] ? &expected.lds[at[lane]] : &expected.memory[at[lane]];
    }, expected);
  }
}

void lds_atomic(Machine& m, const Opcode& opcode, const std::string& operation, unsigned size, bool returns) {
  for (int i = 0; i < k_trials; ++i) {
    AtomicTrial t{m, operation, size, returns, true};
    State before = m.random_state();
    fill(m, before, operation, size);
    Fields f;
    f.addr = k_address;
    f.data0 = k_data;
    f.data1 = k_second;
    f.vdst = k_result;
    f.acc = m.random(2) == 0;
    const unsigned offset = m.random(512) * 8;
    f.offset = static_cast<int>(offset & 0xFF);
    f.offset1 = static_cast<int>(offset >> 8);
    std::uint32_t at[k_lanes];
    for (unsigned lane = 0; lane < k_lanes; ++lane) {
      at[lane] = 8 * m.random(48) + (m.random(2) == 0 ? 4096 : 0);
      before.vgpr[k_address].lane[lane] = at[lane] - offset;  // wraps around
    }
    State expected = before;
    t.check(opcode, f, before, [&](unsigned lane, unsigned) { return &expected.lds[at[lane]]; }, expected);
  }
}

// Opcode name to operation: "global_atomic_smin_x2" smin, "ds_min_rtn_i64" smin, "ds_cmpst_f32" cmpst_f32.
std::string operation_of(const std::string& mnemonic) {
  if (mnemonic.find("_atomic_") != std::string::npos) {
    std::string operation = mnemonic.substr(mnemonic.find("_atomic_") + 8);
    if (operation.ends_with("_x2")) operation.resize(operation.size() - 3);
    return operation;
  }
  std::string operation = mnemonic.substr(3);
  if (const auto at = operation.find("_rtn"); at != std::string::npos) operation.erase(at, 4);
  const auto bar = operation.rfind('_');
  const std::string base = operation.substr(0, bar), type = operation.substr(bar + 1);
  if (type[0] == 'f' || type.starts_with("bf")) return operation;
  if (base == "wrxchg") return "swap";
  if (base == "min" || base == "max") return (type[0] == 'i' ? "s" : "u") + base;
  return base;
}

}  // namespace

int main() {
  const std::set<std::string> elsewhere = {"wrxchg2", "wrxchg2st64", "condxchg32"};
  for (const Target target : {Target::gfx90a, Target::gfx942}) {
    Machine m(target, 11);
    unsigned memory_opcodes = 0, lds_opcodes = 0;
    for (const Opcode& opcode : opcodes(target)) {
      const std::string mnemonic(opcode.mnemonic);
      const std::string operation = operation_of(mnemonic);
      const unsigned size = mnemonic.ends_with("x2") || mnemonic.ends_with("64") ? 8 : 4;
      if (opcode.format == Format::smem || opcode.format == Format::mimg) continue;  // refused
      if (mnemonic.find("_atomic_") != std::string::npos) {
        ++memory_opcodes;
        memory_atomic(m, opcode, operation, size);
      } else if (opcode.format == Format::ds && opcode.src[1].dwords != 0 && !elsewhere.contains(operation) &&
                 operation.find("write") == std::string::npos && operation.find("permute") == std::string::npos) {
        ++lds_opcodes;
        lds_atomic(m, opcode, operation, size, opcode.dst.dwords != 0);
      }
    }
    std::printf("%s: %u memory and %u LDS atomics\n", std::string(name(target)).c_str(), memory_opcodes, lds_opcodes);
    if (memory_opcodes < 85 || lds_opcodes < 70) fail("opcodes are missing from the table");
  }
  return failures() != 0;
}
