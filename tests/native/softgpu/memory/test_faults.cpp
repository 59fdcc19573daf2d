// What a wrong access is reported as: kind, address, lane, access, size; and what is not one.
#include <cstring>
#include <string>

#include "machine.hpp"
#include "softgpu/exec/work_group.hpp"

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

namespace {

constexpr unsigned k_address = 4, k_data = 16, k_to = 32;
constexpr std::uint64_t k_end = k_memory_va + k_memory_bytes;

struct Case {
  const char* mnemonic;
  std::uint64_t address;  // of lane 5; the other lanes access k_memory_va (LDS: 0, scratch: 0)
  FaultKind kind;
  AccessKind access;
  std::uint64_t reported;
  unsigned size;
};

constexpr std::uint64_t k_shared = std::uint64_t{1} << 48, k_private = std::uint64_t{2} << 48;

constexpr Case k_cases[] = {
    {"global_load_dword", 0, FaultKind::unmapped_address, AccessKind::read, 0, 4},
    {"global_load_dword", k_end - 2, FaultKind::unmapped_address, AccessKind::read, k_end, 4},
    {"global_load_dwordx4", k_memory_va - 1, FaultKind::unmapped_address, AccessKind::read, k_memory_va - 1, 16},
    {"global_store_dwordx2", k_end - 4, FaultKind::unmapped_address, AccessKind::write, k_end, 8},
    {"global_store_byte", k_read_only_va + 7, FaultKind::forbidden_access, AccessKind::write, k_read_only_va + 7, 1},
    {"global_load_ubyte", k_read_only_va + 7, FaultKind::none, AccessKind::none, 0, 0},
    {"global_atomic_add", k_read_only_va + 8, FaultKind::forbidden_access, AccessKind::atomic, k_read_only_va + 8, 4},
    {"global_atomic_add", k_end, FaultKind::unmapped_address, AccessKind::atomic, k_end, 4},
    {"global_atomic_add", k_memory_va + 2, FaultKind::misaligned_address, AccessKind::atomic, k_memory_va + 2, 4},
    {"global_atomic_add_x2", k_memory_va + 4, FaultKind::misaligned_address, AccessKind::atomic, k_memory_va + 4, 8},
    {"global_load_dword", k_memory_va + 3, FaultKind::none, AccessKind::none, 0, 0},
    {"flat_load_dword", 0x123456789AB0, FaultKind::unmapped_address, AccessKind::read, 0x123456789AB0, 4},
    {"flat_store_dword", k_shared + k_lds_bytes, FaultKind::lds_out_of_range, AccessKind::write, k_lds_bytes, 4},
    {"flat_load_dword", k_shared + k_lds_bytes - 3, FaultKind::lds_out_of_range, AccessKind::read, k_lds_bytes - 3, 4},
    {"flat_load_dword", k_shared + k_lds_bytes - 4, FaultKind::none, AccessKind::none, 0, 0},
    {"flat_store_dword", k_private + k_scratch_bytes_per_lane, FaultKind::unmapped_address, AccessKind::write,
     k_scratch_va + k_scratch_bytes_per_lane * k_lanes + 5 * 4, 4},
    {"flat_load_dword", k_private + k_scratch_bytes_per_lane - 4, FaultKind::none, AccessKind::none, 0, 0},
    {"flat_atomic_add", k_private + 8, FaultKind::unsupported_operand, AccessKind::atomic, k_private + 8, 4},
    {"ds_read_b32", k_lds_bytes, FaultKind::lds_out_of_range, AccessKind::read, k_lds_bytes, 4},
    {"ds_read_b32", k_lds_bytes - 3, FaultKind::lds_out_of_range, AccessKind::read, k_lds_bytes - 3, 4},
    {"ds_read_b128", k_lds_bytes - 12, FaultKind::lds_out_of_range, AccessKind::read, k_lds_bytes - 12, 16},
    {"ds_read_b128", k_lds_bytes - 16, FaultKind::none, AccessKind::none, 0, 0},
    {"ds_write_b8", 0xFFFFFFFF, FaultKind::lds_out_of_range, AccessKind::write, 0xFFFFFFFF, 1},
    {"ds_write_b64", 0xFFFFFFFC, FaultKind::lds_out_of_range, AccessKind::write, 0xFFFFFFFC, 8},
    {"ds_add_u32", k_lds_bytes, FaultKind::lds_out_of_range, AccessKind::atomic, k_lds_bytes, 4},
    {"ds_add_u32", 6, FaultKind::misaligned_address, AccessKind::atomic, 6, 4},
    {"ds_add_u64", 12, FaultKind::misaligned_address, AccessKind::atomic, 12, 8},
    {"scratch_load_dword", k_scratch_bytes_per_lane - 3, FaultKind::unmapped_address, AccessKind::read,
     k_scratch_va + (k_scratch_bytes_per_lane - 4) / 4 * (4 * k_lanes) + 5 * 4 + 1, 4},
    {"scratch_store_byte", k_scratch_bytes_per_lane - 1, FaultKind::none, AccessKind::none, 0, 0},
    {"scratch_store_dwordx2", 0xFFFFFFFC, FaultKind::unmapped_address, AccessKind::write,
     k_scratch_va + std::uint64_t{0xFFFFFFFC} / 4 * (4 * k_lanes) + 5 * 4, 8},
};

void check(Machine& m, const Case& c, std::uint64_t mask) {
  const Opcode* opcode = m.find(c.mnemonic);
  if (opcode == nullptr) return fail("no %s", c.mnemonic);
  State state = m.random_state();
  std::memcpy(&state.sgpr[k_exec], &mask, 8);
  Fields f;
  f.addr = k_address, f.data0 = k_data, f.vdst = k_to, f.sve = opcode->format == Format::scratch && m.target != Target::gfx90a;
  const bool is_memory = opcode->format == Format::global || opcode->format == Format::flat;
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    const std::uint64_t address = lane == 5 ? c.address : is_memory ? k_memory_va : 0;
    state.vgpr[k_address].lane[lane] = static_cast<std::uint32_t>(address);
    if (is_memory) state.vgpr[k_address + 1].lane[lane] = static_cast<std::uint32_t>(address >> 32);
  }
  const bool takes_part = ((mask >> 5) & 1) != 0;
  const Fault fault = m.run(m.encode(*opcode, f), state);
  const FaultKind kind = takes_part ? c.kind : FaultKind::none;
  if (fault.kind != kind) return fail("%s at %#jx: %s", c.mnemonic, c.address, describe(fault).c_str());
  if (kind == FaultKind::none) return;
  if (fault.address != c.reported || fault.lane != 5 || fault.access != c.access || fault.size_bytes != c.size ||
      fault.mnemonic != c.mnemonic || fault.pc != 0x1000) {
    fail("%s at %#jx is reported as: %s", c.mnemonic, c.address, describe(fault).c_str());
  }
}

// The stack pointer of gfx90a beyond the wave's own scratch memory.
void stack_overflow(Machine& m) {
  State state = m.random_state();
  state.sgpr[k_exec] = 4, state.sgpr[k_exec + 1] = 0;
  const std::uint32_t words[4] = {static_cast<std::uint32_t>(k_scratch_va), static_cast<std::uint32_t>(k_scratch_va >> 32) | (1U << 31),
                                  ~0U, (1U << 23) | ((k_lanes == 64 ? 3U : 2U) << 21)};
  std::memcpy(&state.sgpr[12], words, 16);
  state.sgpr[20] = (k_scratch_bytes_per_lane - 16) * k_lanes;
  Fields f;
  f.srsrc = 12, f.soffset = 20, f.data0 = k_data;
  const Opcode& store = *m.find("buffer_store_dword");
  f.offset = 12;
  if (const Fault fault = m.run(m.encode(store, f), state)) fail("the last stack slot: %s", describe(fault).c_str());
  f.offset = 16;
  const Fault fault = m.run(m.encode(store, f), state);
  if (fault.kind != FaultKind::unmapped_address || fault.lane != 2) fail("stack overflow: %s", describe(fault).c_str());
}

void refused_forms(Machine& m) {
  Fields f;
  f.gds = true;
  if (m.bind(m.encode(*m.find("ds_read_b32"), f)) != nullptr) fail("a GDS access was accepted");
  f = Fields{};
  f.lds = true;
  if (m.bind(m.encode(*m.find("buffer_load_dwordx4"), f)) != nullptr) fail("a wide load to the LDS was accepted");
  if (m.target == Target::gfx90a && m.bind(m.encode(*m.find("global_store_dword"), f)) != nullptr) {
    fail("a store with the LDS bit was accepted");
  }
}

// Every memory opcode of the target must have a handler.
void every_opcode(Machine& m) {
  for (const Opcode& opcode : opcodes(m.target)) {
    switch (opcode.format) {
      case Format::ds: case Format::flat: case Format::global: case Format::scratch: case Format::mubuf: case Format::mtbuf: break;
      default: continue;
    }
    if (opcode.mnemonic.starts_with("ds_gws_sema_")) continue;  // semaphores are refused: no compiler makes them
    if (!HandlerTable::instance(k_lanes).has(opcode.mnemonic)) {
      fail("%s: nothing executes %s", std::string(name(m.target)).c_str(), std::string(opcode.mnemonic).c_str());
    }
  }
}

// A wave without LDS or scratch memory.
void nothing_allocated(Machine& m) {
  m.wave.lds_size_bytes = 0;
  m.wave.scratch_size_bytes_per_lane = 0;
  check(m, {"ds_read_u8", 0, FaultKind::lds_out_of_range, AccessKind::read, 0, 1}, 32);
  check(m, {"scratch_load_ubyte", 0, FaultKind::unmapped_address, AccessKind::read, k_scratch_va + 20, 1}, 32);
}

}  // namespace

int main() {
  for (const Target target : {Target::gfx90a, Target::gfx942}) {
    Machine m(target, 41);
    WorkGroup group;  // of a dispatch that stops where the LDS ends, which is asked for
    const std::function<bool(const Fault&)> stops = [](const Fault&) { return false; };
    group.goes_on_beyond_lds = &stops;
    m.wave.group = &group;
    for (const Case& c : k_cases) {
      constexpr std::uint64_t k_lane5 = 32;
      for (const std::uint64_t mask : {k_all_lanes, k_lane5, k_all_lanes & ~k_lane5, std::uint64_t{0xFF00FF}}) {
        check(m, c, mask);
      }
    }
    stack_overflow(m);
    refused_forms(m);
    every_opcode(m);
    nothing_allocated(m);
  }
  return failures() != 0;
}
