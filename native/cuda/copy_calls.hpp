// Driver calls that copy from or to the host, and may take long.
#pragma once

#include <span>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

[[nodiscard]] std::span<const CUpti_CallbackId> copy_calls() noexcept;
[[nodiscard]] bool is_copy(CUpti_CallbackId call) noexcept;

}  // namespace kerncap::cuda
