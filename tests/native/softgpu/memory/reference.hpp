// What loads, stores and atomics do, written from their names, one byte and one lane at a time.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "machine.hpp"

namespace kerncap::softgpu::test {

// "load_sbyte_d16_hi", "read_u8_d16", "store_dwordx3", "write_b96" …
struct Transfer {
  bool is_load = false, is_signed = false;
  unsigned size_bytes = 0;
  enum { whole, low, high } half = whole;

  explicit Transfer(std::string_view name) {
    const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
    is_load = has("load") || has("read");
    is_signed = has("sbyte") || has("sshort") || has("_i8") || has("_i16");
    if (has("byte") || has("8")) size_bytes = 1;
    else if (has("short") || has("_b16") || has("_u16") || has("_i16")) size_bytes = 2;
    else if (has("x2") || has("64")) size_bytes = 8;
    else if (has("x3") || has("96")) size_bytes = 12;
    else if (has("x4")) size_bytes = 16;
    else size_bytes = 4;
    if (has("b128")) size_bytes = 16;
    if (has("d16_hi")) half = high;
    else if (has("d16")) half = low;
  }
  [[nodiscard]] unsigned registers() const { return (size_bytes + 3) / 4; }
};

// The byte `at` of a lane's element in the expected state; null: out of range, reads 0, drops writes.
using Place = std::function<std::uint8_t*(unsigned lane, unsigned at)>;

inline void expect_transfer(const Transfer& transfer, std::uint64_t mask, const Place& place, Row* registers) {
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    if (((mask >> lane) & 1) == 0) continue;
    std::uint8_t bytes[16] = {};
    if (!transfer.is_load) {
      for (unsigned i = 0; i < transfer.registers(); ++i) std::memcpy(bytes + 4 * i, &registers[i].lane[lane], 4);
      const unsigned skip = transfer.half == Transfer::high ? 2 : 0;
      for (unsigned at = 0; at < transfer.size_bytes; ++at) {
        if (std::uint8_t* to = place(lane, at)) *to = bytes[at + skip];
      }
      continue;
    }
    for (unsigned at = 0; at < transfer.size_bytes; ++at) {
      if (const std::uint8_t* from = place(lane, at)) bytes[at] = *from;
    }
    if (transfer.size_bytes >= 4) {
      for (unsigned i = 0; i < transfer.registers(); ++i) std::memcpy(&registers[i].lane[lane], bytes + 4 * i, 4);
      continue;
    }
    std::uint32_t value = bytes[0] | (bytes[1] << 8);
    const unsigned top = 8 * transfer.size_bytes - 1;
    if (transfer.is_signed && ((value >> top) & 1) != 0) value |= ~0U << top;
    std::uint32_t& word = registers[0].lane[lane];  // the half that is not loaded becomes zero: sramecc
    if (transfer.half == Transfer::whole) word = value;
    if (transfer.half == Transfer::low) word = value & 0xFFFFU;
    if (transfer.half == Transfer::high) word = value << 16;
  }
}

// Collects the address of each byte of GPU or scratch memory that a place names; null and the LDS have none.
class Addresses {
 public:
  std::uint8_t* note(const State& state, std::uint8_t* at) {
    if (const auto offset = offset_in(state.memory, at)) m_addresses.push_back(k_memory_va + *offset);
    if (const auto offset = offset_in(state.scratch, at)) m_addresses.push_back(k_scratch_va + *offset);
    return at;
  }
  [[nodiscard]] const std::vector<std::uint64_t>& all() const { return m_addresses; }

 private:
  static std::optional<std::uint64_t> offset_in(const std::vector<std::uint8_t>& bytes, const std::uint8_t* at) {
    if (at < bytes.data() || at >= bytes.data() + bytes.size()) return std::nullopt;
    return static_cast<std::uint64_t>(at - bytes.data());
  }

  std::vector<std::uint64_t> m_addresses;
};

// The new value of an atomic, from the operation's name: "add", "smin", "cmpswap", "add_f32" … For DS opcodes, `a` is data0
// and `b` data1; for memory `a` is the first and `b` the second half of the data.
std::uint64_t expect_atomic(const std::string& operation, unsigned size_bytes, std::uint64_t old, std::uint64_t a,
                            std::uint64_t b, bool flush_f32);

}  // namespace kerncap::softgpu::test
