// The list of regions that one capture holds, and how each can be read.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/allocations.hpp"
#include "capture/mappings.hpp"
#include "capture/streams.hpp"
#include "core/result.hpp"

namespace kerncap::capture {

// What a back end's hooks have heard of.
struct ProgramMemory {
  AllocationMap allocations;
  Mappings mappings;
  PinnedMap pinned;
  ManagedRanges managed;

  // Everything that the device may touch now, ordered by address, without overlap.
  [[nodiscard]] std::vector<Allocation> reachable(std::uint32_t device) const;
};

// Where the processor finds what the device has at an address in the region.
[[nodiscard]] constexpr std::uint64_t host_address(const Allocation& region, std::uint64_t address) noexcept {
  return region.host != 0 ? region.host + (address - region.base) : address;
}

[[nodiscard]] const Allocation* region_at(const std::vector<Allocation>& regions, std::uint64_t address) noexcept;

// Host memory is read by the CPU, device memory by the device.
[[nodiscard]] bool is_host_readable(const Allocation& region) noexcept;
// The device whose queue reads the region: its owner if it may, else the one that runs the kernel.
[[nodiscard]] std::uint32_t reader_of(const Allocation& region, std::uint32_t kernel_device) noexcept;

// `devices`: those that there are, a bit each.
void send_regions(Channel& channel, std::uint64_t capture, const std::vector<Allocation>& regions,
                  std::uint64_t devices = k_every_device) noexcept;
core::Result<void> send_host_region(Channel& channel, StreamKind kind, std::uint64_t capture, std::uint64_t index,
                                    const Allocation& region, const Look& look, const GoesOn& goes_on) noexcept;

}  // namespace kerncap::capture
