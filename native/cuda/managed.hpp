// Where managed memory stays while a kernel uses it.
#pragma once

#include <cstdint>

#include "cuda/allocations.hpp"

namespace kerncap::cuda {

// capture::k_region_stays_on_host, k_region_read_mostly. What was advised about a part of an allocation does not count.
[[nodiscard]] std::uint32_t managed_flags(const Allocation& managed, std::uint32_t device) noexcept;

}  // namespace kerncap::cuda
