// Gathers regions from the allocation maps and describes them to the collector.
#include "capture/regions.hpp"

#include <algorithm>

#include "capture/host_mappings.hpp"
#include "capture/send_list.hpp"

namespace kerncap::capture {
namespace {

// The rest came from a pool, and stays until the capture is over.
bool is_the_programs_to_unmap(const Allocation& region) noexcept {
  return region.kind == MemoryKind::host_registered || region.kind == MemoryKind::managed;
}

// Without what the program has unmapped since: no call tells of that. HIP frees managed memory so.
std::vector<Allocation> still_mapped(const std::vector<Allocation>& regions) {
  if (std::none_of(regions.begin(), regions.end(), is_the_programs_to_unmap)) return regions;
  const std::vector<HostRange> readable = readable_memory();
  std::vector<Allocation> found;
  for (const Allocation& region : regions) {
    if (!is_the_programs_to_unmap(region)) {
      found.push_back(region);
      continue;
    }
    const std::uint64_t host = host_address(region, region.base);
    for (const HostRange& part : parts_within(readable, host, host + region.bytes)) {
      Allocation piece = region;
      piece.base += part.begin - host;
      piece.bytes = part.end - part.begin;
      if (piece.host != 0) piece.host = part.begin;
      found.push_back(piece);
    }
  }
  return found;
}

}  // namespace

std::vector<Allocation> ProgramMemory::reachable(std::uint32_t device) const {
  std::vector<Allocation> all;
  // In order of trust: what was allocated as such, then mappings, then pinned and managed ranges of host memory.
  allocations.append_to(all);
  mappings.append_to(all, device);
  pinned.append_to(all);
  managed.append_to(all);
  std::erase_if(all, [device](const Allocation& region) { return (region.access >> device & 1) == 0; });
  // What is of no pool comes in pages.
  for (Allocation& region : all) region.align = region.align == 0 ? 4096 : region.align;
  return still_mapped(disjoint(all));
}

const Allocation* region_at(const std::vector<Allocation>& regions, std::uint64_t address) noexcept {
  auto after = std::upper_bound(regions.begin(), regions.end(), address,
                                [](std::uint64_t at, const Allocation& region) { return at < region.base; });
  if (after == regions.begin()) return nullptr;
  const Allocation& found = *std::prev(after);
  return address < found.end() ? &found : nullptr;
}

bool is_host_readable(const Allocation& region) noexcept {
  switch (region.kind) {
    case MemoryKind::host_coarse:
    case MemoryKind::host_pinned:
    case MemoryKind::host_registered:
    case MemoryKind::managed:
      return true;
    case MemoryKind::kernarg:
      return region.device == k_no_device;
    default:
      return false;
  }
}

std::uint32_t reader_of(const Allocation& region, std::uint32_t kernel_device) noexcept {
  const bool owner_reads = region.device < 64 && (region.access >> region.device & 1) != 0;
  return owner_reads ? region.device : kernel_device;
}

void send_regions(Channel& channel, std::uint64_t capture, const std::vector<Allocation>& regions,
                  std::uint64_t devices) noexcept {
  const messages::Regions head{.capture = capture};
  send_list(channel, head, regions.size(), [&](Message& message, std::size_t i) {
    const Allocation& region = regions[i];
    messages::Region{.index = static_cast<std::uint32_t>(i),
                              .kind = region.kind,
                              .device = region.device,
                              .flags = region.flags,
                              .base = region.base,
                              .size_bytes = region.bytes,
                              .access = region.access & devices,
                              .host = region.host,
                              .align = region.align,
                              .piece = region.piece,
                              .module = region.module}
        .write(message);
  });
}

core::Result<void> send_host_region(Channel& channel, StreamKind kind, std::uint64_t capture, std::uint64_t index,
                                    const Allocation& region, const Look& look, const GoesOn& goes_on) noexcept {
  const std::uint64_t host = host_address(region, region.base);
  if (is_the_programs_to_unmap(region)) {
    return send_unsafe_range(channel, kind, capture, index, host, region.bytes, look, goes_on);
  }
  const std::span bytes(reinterpret_cast<const std::byte*>(host), region.bytes);
  return send_stream(channel, kind, capture, index, bytes, look, goes_on);
}

}  // namespace kerncap::capture
