// A decoded instruction bound to the function that executes it. Made once per code address and worker, then only read.
#pragma once

#include <cstdint>

#include "softgpu/exec/row.hpp"
#include "softgpu/isa/decoded.hpp"

namespace kerncap::softgpu {

struct WaveContext;
struct Instruction;

// What the interpreter does after an instruction.
enum class Flow : std::uint8_t {
  next,     // fall through
  jump,     // continue at wave.pc
  wait,     // fall through; on hardware, others run until memory has answered (s_waitcnt)
  yield,    // fall through, and let other waves run first (s_sleep)
  retry,    // execute the same instruction again, after other waves have run
  barrier,  // fall through once every wave of the work-group has come here
  end,      // the wave is done
  fault,    // wave.fault says why; the dispatch stops
};

using Handler = Flow (*)(WaveContext&, const Instruction&) noexcept;

struct alignas(64) Instruction : Decoded {
  Handler handler = nullptr;
  const Instruction* next = nullptr;  // the one after it, once decoded and on the same page
  std::uint64_t pc = 0;
  // A constant source, broadcast: row[i][0] is its low dword in every lane, row[i][1] its high dword.
  const Row* constant_row[4] = {};

  [[nodiscard]] std::uint64_t next_pc() const noexcept { return pc + size_bytes; }
};

}  // namespace kerncap::softgpu
