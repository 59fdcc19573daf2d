// The driver calls by which code comes to it, or that tell which module is which.
#pragma once

#include <span>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

[[nodiscard]] std::span<const CUpti_CallbackId> code_calls() noexcept;
// Nothing happens when this is no call of that list. with_images: what code was compiled from is kept, too.
void track_code_call(CUpti_CallbackId call, const CUpti_CallbackData& data, bool with_images = true) noexcept;

}  // namespace kerncap::cuda
