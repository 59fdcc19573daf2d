// Addresses that a kernel is given, and what lies there: by our list, the driver and the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

// Whatever they are: an address stands at a multiple of eight bytes.
[[nodiscard]] std::vector<std::uint64_t> words_of(const std::vector<std::byte>& parameters);

[[nodiscard]] bool is_known_to_the_driver(std::uint64_t address) noexcept;

// Whether a parameter points to ordinary memory of the host, which some devices reach by themselves (HMM, ATS). Those of a pointer's size
// are looked at: in larger ones there may be words that nobody has set, and that hold what stood on a stack.
[[nodiscard]] bool is_given_ordinary_memory(CUfunction function, const std::vector<std::byte>& parameters, std::uint32_t device);

}  // namespace kerncap::cuda
