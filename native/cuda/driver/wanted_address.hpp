// Managed memory comes at addresses that the driver chooses, by asking the system for room anywhere. For as long as one of these
// is there, this thread's next such request gets the wanted room.
#pragma once

#include <cstdint>

namespace kerncap::cuda {

class WantedAddress {
 public:
  // `base` is a multiple of what the driver aligns to, 32 MiB; nothing happens where that room is taken.
  explicit WantedAddress(std::uint64_t base) noexcept;
  ~WantedAddress();
  WantedAddress(const WantedAddress&) = delete;
  WantedAddress& operator=(const WantedAddress&) = delete;
};

}  // namespace kerncap::cuda
