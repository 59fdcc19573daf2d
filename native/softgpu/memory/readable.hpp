// Whether this process can read memory, found out without a fault.
#pragma once

#include <cstdint>

namespace kerncap::softgpu {

// All of [begin, end): one byte of each page is copied by the kernel; where it cannot, it says so and nobody faults. Where a sandbox
// forbids the call, all counts as readable.
[[nodiscard]] bool is_readable(std::uint64_t begin, std::uint64_t end) noexcept;

}  // namespace kerncap::softgpu
