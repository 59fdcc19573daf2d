// Runs one wave for a while.
#pragma once

#include <cstdint>

#include "softgpu/exec/code_cache.hpp"
#include "softgpu/exec/dispatch.hpp"
#include "softgpu/exec/wave.hpp"

namespace kerncap::softgpu {

// Why run_wave() returned; wave.pc is where it goes on.
enum class WaveStop : std::uint8_t { budget, wait, yield, barrier, end, fault };

struct WaveRun {
  WaveStop stop;
  std::uint32_t executed;
};

// Executes at most `budget` instructions. ends_at_wait: not beyond a wait for memory. counts: by class, or null. The
// wave's worker has its slice open.
[[nodiscard]] WaveRun run_wave(WaveContext& wave, CodeCache& code, std::uint32_t budget, bool ends_at_wait,
                               InstructionCounts* counts) noexcept;

}  // namespace kerncap::softgpu
