// Keeps the list of allocations by what the program's driver calls return.
#pragma once

#include <span>

#include "cuda/allocations.hpp"
#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

// The calls that have to be seen.
[[nodiscard]] std::span<const CUpti_CallbackId> memory_calls() noexcept;
// False when this is no call of that list.
bool track_memory_call(Allocations& allocations, CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept;

// How much device memory a call is about to ask for; 0: none.
[[nodiscard]] std::uint64_t allocated_bytes(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept;

}  // namespace kerncap::cuda
