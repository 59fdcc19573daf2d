// REGIONS, in as many messages as they need.
#include "cuda/regions.hpp"

#include <algorithm>

namespace kerncap::cuda {

void send_regions(capture::Channel& channel, std::uint64_t capture, const std::vector<Allocation>& regions,
                  std::uint32_t device_count) noexcept {
  constexpr std::size_t k_per_message = 300;   // 72 bytes each
  const std::uint64_t every_device = (std::uint64_t{1} << device_count) - 1;
  for (std::size_t first = 0; first < regions.size(); first += k_per_message) {
    const std::size_t end = std::min(regions.size(), first + k_per_message);
    capture::Message message(capture::Up::regions);
    message.u64(capture).u32(static_cast<std::uint32_t>(end - first));
    for (std::size_t i = first; i < end; ++i) {
      const Allocation& region = regions[i];
      const std::uint64_t access = (region.access == 0 ? every_device : region.access) & every_device;
      message.u32(static_cast<std::uint32_t>(i)).u32(static_cast<std::uint32_t>(region.kind)).u32(region.device);
      message.u32(region.flags).u64(region.base).u64(region.bytes).u64(access).u64(0).u64(0).u32(region.piece).u64(region.module);
    }
    channel.send(message);
  }
}

}  // namespace kerncap::cuda
