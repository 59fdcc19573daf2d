// What runs did to memory, where the device itself can tell. Where it cannot, the replayer reads and compares.
#pragma once

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

class Watch {
 public:
  virtual ~Watch() = default;

  // Copies whole regions on the device. Those that it cannot, or has no room for, it leaves out of what it returns.
  // Once more: as they are now, in the same copies.
  virtual core::Result<std::vector<const Region*>> remember(const std::vector<const Region*>& regions) = 0;
  // A word for each chunk of the regions that remember() returned, one after the other; not 0: it changed since.
  virtual core::Result<std::vector<std::uint32_t>> changed(std::uint64_t chunk_bytes) = 0;
  // What runs have written outside of all regions, in memory that is there because it comes in larger pieces than the
  // regions are. Ascending; the first few of very many.
  virtual core::Result<std::vector<AddressRange>> written_outside() = 0;
};

}  // namespace kerncap::replay
