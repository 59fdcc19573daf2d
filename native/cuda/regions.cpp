// REGIONS, in as many messages as they need.
#include "cuda/regions.hpp"

#include "capture/send_list.hpp"

namespace kerncap::cuda {

void send_regions(capture::Channel& channel, std::uint64_t capture, const std::vector<Allocation>& regions,
                  std::uint32_t device_count) noexcept {
  const std::uint64_t every_device = (std::uint64_t{1} << device_count) - 1;
  const capture::messages::Regions head{.capture = capture};
  send_list(channel, head, regions.size(), [&](capture::Message& message, std::size_t i) {
    const Allocation& region = regions[i];
    capture::messages::Region{.index = static_cast<std::uint32_t>(i),
                              .kind = region.kind,
                              .device = region.device,
                              .flags = region.flags,
                              .base = region.base,
                              .size_bytes = region.bytes,
                              .access = (region.access == 0 ? every_device : region.access) & every_device,
                              .piece = region.piece,
                              .module = region.module}
        .write(message);
  });
}

}  // namespace kerncap::cuda
