// Guarded runs: the device may not write where the captured kernel writes nothing. What a kernel writes there is a fault at
// once; afterwards nobody could tell, if it puts back what was there.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "replay/plan.hpp"

namespace kerncap::replay {

class Guard {
 public:
  // A part of placed memory that gets rights of its own.
  struct Piece {
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    bool guarded = false;
  };

  Guard() = default;
  // Rights hold for whole granules: only those are guarded of which the plan leaves nothing open. `can_guard`: whether the
  // driver can take away the right to write to a region's memory.
  Guard(const Plan& plan, std::uint64_t granule_bytes, const std::function<bool(const Region&)>& can_guard);

  // Cuts placed memory, whole granules of it, into pieces that are guarded and pieces that are not.
  [[nodiscard]] std::vector<Piece> cut(std::uint64_t base, std::uint64_t bytes) const;

 private:
  std::vector<AddressRange> m_guarded;   // ascending and apart
};

}  // namespace kerncap::replay
