// What CUPTI calls in replace mode: launches run variants, and nothing waits.
#pragma once

#include <array>
#include <span>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

// The driver calls that matter.
[[nodiscard]] std::array<std::span<const CUpti_CallbackId>, 6> replace_calls() noexcept;
// `own`: the OwnProcess.
void CUPTIAPI on_replace_callback(void* own, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);

}  // namespace kerncap::cuda
