// What the environment asks of the software GPU; kc-softgpu sets it, and it can be set by hand.
//
//   KERNCAP_SOFTGPU             0: no GPU, though the library is loaded
//   KERNCAP_SOFTGPU_TARGET      gfx90a (default), gfx942, gfx1100
//   KERNCAP_SOFTGPU_GPUS        number of GPUs, 1 to 8 (default 1)
//   KERNCAP_SOFTGPU_VRAM_BYTES  memory of each GPU (default: the real chip's, at most its share of the host's memory)
//   KERNCAP_SOFTGPU_WORKERS     interpreter threads (default: one for each core that the process may use)
//   KERNCAP_SOFTGPU_LDS         accesses beyond a work-group's LDS: hardware (default: not a word), report, stop
//   KERNCAP_SOFTGPU_SCHEDULE    hardware-like (default), adversarial, adversarial:SEED: whose turn it is among waves
//   KERNCAP_SOFTGPU_CLOCK       steady (default), jumps:SEED: the clocks that kernels read go forward from dispatch to dispatch
//   KERNCAP_SOFTGPU_UNSET       patterns (default), leftovers: what registers, LDS and scratch memory hold before a kernel writes them
//   KERNCAP_SOFTGPU_TRACE       anything but 0: driver calls and packets on standard error
//   KERNCAP_SOFTGPU_COUNT       a file that gets one JSON object a dispatch, or "-" for a table on standard error
//   KERNCAP_SOFTGPU_ACCESSES    with that: a file of ranges of memory; how much dispatches read and write of each is told, too
//   KERNCAP_SOFTGPU_REFUSALS    a file that gets a line for each code object and kernel that this GPU did not run
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/result.hpp"
#include "softgpu/device/chip.hpp"
#include "softgpu/exec/schedule.hpp"

namespace kerncap::softgpu {

// What happens besides when an access lies beyond a work-group's LDS: nothing, a line for each instruction, or the end of its queue.
enum class BeyondLds : std::uint8_t { hardware, report, stop };

struct Settings {
  const Chip* chip = nullptr;
  unsigned gpu_count = 1;
  std::uint64_t vram_bytes = 0;
  unsigned workers = 0;
  BeyondLds beyond_lds = BeyondLds::hardware;
  Schedule schedule;
  std::optional<std::uint64_t> clock_seed;  // of jumps; none: there are none
  bool keeps_leftovers = false;
  bool trace = false;
  std::string count_path;     // empty: no counts
  std::string accesses_path;  // empty: not recorded
  std::string refusals_path;  // empty: on standard error alone

  [[nodiscard]] static core::Result<Settings> from_environment();
};

}  // namespace kerncap::softgpu
