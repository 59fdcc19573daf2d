// One wave on one worker with memory of its own, for tests of memory instructions. Instructions are encoded, decoded and
// bound as the interpreter would; the tests compare what they did with references written byte by byte.
//
// GPU memory: 256 KiB from k_memory_va on, in four extents of 64 KiB with a host buffer each, so that elements straddle
// extents and one boundary is a multiple of 4 GiB. Around it nothing is mapped.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/wave_lanes.hpp"
#include "softgpu/isa/decoder.hpp"
#include "softgpu/memory/access_record.hpp"

namespace kerncap::softgpu::test {

inline constexpr std::uint64_t k_memory_va = 0x4FFFE0000;
inline constexpr std::uint32_t k_extent_bytes = 64 * 1024, k_extents = 4, k_memory_bytes = k_extent_bytes * k_extents;
inline constexpr std::uint64_t k_read_only_va = 0x600000000, k_scratch_va = 0x700000000;
inline constexpr std::uint32_t k_read_only_bytes = 4096;
inline constexpr std::uint32_t k_scratch_bytes_per_lane = 1024, k_lds_bytes = 8192;
inline constexpr unsigned k_registers = 64;  // VGPRs, and as many AGPRs

// Everything an instruction can change.
struct State {
  std::array<std::uint32_t, 128> sgpr{};
  std::array<Row, k_registers> vgpr{}, agpr{};
  std::vector<std::uint8_t> memory, scratch, lds;
};

struct Code {
  std::uint32_t words[2];
};

// Fields of one instruction; each format takes those that it has.
struct Fields {
  unsigned vdst = 0, addr = 0, data0 = 0, data1 = 0;  // MUBUF: data0 is vdata
  unsigned saddr = 0x7F, srsrc = 0, soffset = 128;     // 128: the constant 0
  int offset = 0, offset1 = 0;
  bool acc = false, glc = false, lds = false, gds = false, sve = false, offen = false, idxen = false;
  unsigned dfmt = 0, nfmt = 0;
};

// Prints and counts; main() returns failures() != 0.
void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[nodiscard]] int failures();

class Machine {
 public:
  Machine(Target target, unsigned seed);

  [[nodiscard]] const Opcode* find(std::string_view mnemonic) const;  // null: this target lacks it
  [[nodiscard]] Code encode(const Opcode& opcode, const Fields& fields) const;
  // Null handler: refused. The instruction lives until the next call.
  [[nodiscard]] Instruction* bind(const Code& code);
  // Loads `state` into the machine, executes, reads it back; the answer's kind is none unless it stopped.
  Fault run(const Code& code, State& state);

  // Compares the accesses that were recorded in the last run with the addresses of the bytes that should have been; a byte
  // may be named several times.
  // A wave's own scratch memory does not count: nobody asks for it.
  void check_record(const std::vector<std::uint64_t>& read, const std::vector<std::uint64_t>& written, const char* what) const;
  void check_transfer(bool is_load, const std::vector<std::uint64_t>& named, const char* what) const {
    const std::vector<std::uint64_t> none;
    check_record(is_load ? named : none, is_load ? none : named, what);
    if (is_load && !m_told.empty()) fail("%s: a load told of a write", what);
  }

  // Calls measure(once) with the state loaded; once() executes the instruction and aborts when it stops.
  template <class Measure>
  void repeat(const Instruction& instruction, const State& state, Measure&& measure) {
    load(state);
    const AddressSpace::View view(m_space);
    m_worker->memory.begin_slice(m_space, view);
    measure([&] {
      if (instruction.handler(wave, instruction) != Flow::next) std::abort();
    });
    m_worker->memory.end_slice();
  }

  [[nodiscard]] State random_state();
  [[nodiscard]] std::uint64_t random_mask();
  [[nodiscard]] std::uint32_t random(std::uint32_t below) { return static_cast<std::uint32_t>(m_random() % below); }

  Target target;
  WaveContext wave;

 private:
  void load(const State& state);
  void read_back(State& state) const;
  void note_told(std::uint64_t begin, std::uint64_t end);
  // What was told before writes, in the last run, is all that has changed, as it was before.
  void check_told(const State& before) const;

  std::mt19937_64 m_random;
  AddressSpace m_space;
  std::unique_ptr<WorkerState> m_worker = std::make_unique<WorkerState>();
  std::vector<std::uint8_t> m_extent[k_extents], m_read_only, m_scratch, m_lds;
  std::vector<Row> m_vgpr, m_agpr;
  Instruction m_instruction;
  std::array<std::array<Row, 2>, 4> m_constants;
  std::vector<AccessRange> m_watched;  // the GPU memory and the scratch memory
  std::optional<AccessRecord> m_record;
  // Every other run is told of.
  bool m_is_told = false;
  core::WriteWatch m_write_watch;
  std::map<std::uint64_t, std::vector<std::uint8_t>> m_told;  // of the GPU memory: what was there
};

// Compares what ran with what should have; names the first difference.
bool same(const State& got, const State& wanted, const char* what);

}  // namespace kerncap::softgpu::test
