// Kernels of ours that overwrite what runs leave on the compute units, and in scratch memory.
#pragma once

#include <memory>

#include "replay/driver.hpp"
#include "replay/scrub_values.hpp"

namespace kerncap::hsa {

struct Scrub {
  bool is_wanted = false;
  std::unique_ptr<replay::Code> waves, lds, registers;  // kernels/scrub.cl; null before the first run
  replay::ScrubTurns turns;
  // The most scratch memory of a work-item that all waves of the device have had, and whether more may have room.
  std::uint32_t full_private_bytes = 0;
  bool has_room = true;
};

}  // namespace kerncap::hsa
