// Describes the regions of a capture to the collector.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/channel.hpp"
#include "cuda/allocations.hpp"

namespace kerncap::cuda {

// `device_count`: at most 63; what every device may touch lists all of them.
void send_regions(capture::Channel& channel, std::uint64_t capture, const std::vector<Allocation>& regions,
                  std::uint32_t device_count) noexcept;

}  // namespace kerncap::cuda
