// Whether a queue stands still although it holds packets.
#pragma once

#include "hsa/queues.hpp"

namespace kerncap::hsa {

// The device stands in front of a barrier whose condition does not hold: nothing before it runs any more.
[[nodiscard]] bool is_blocked(const Queue& queue) noexcept;

}  // namespace kerncap::hsa
