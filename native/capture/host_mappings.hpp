// What of this process's memory can be read now. Memory that a program unmaps by itself is known to no runtime.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kerncap::capture {

struct HostRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// All that is mapped with the right to read, in order, neighbours joined. Where the system does not tell: everything.
[[nodiscard]] std::vector<HostRange> readable_memory();

// The parts of [begin, end) that lie in `ranges`, which are in order.
[[nodiscard]] std::vector<HostRange> parts_within(std::span<const HostRange> ranges, std::uint64_t begin,
                                                  std::uint64_t end);

}  // namespace kerncap::capture
