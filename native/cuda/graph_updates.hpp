// The driver calls that change a graph which is executable already.
#pragma once

#include <span>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

[[nodiscard]] std::span<const CUpti_CallbackId> graph_updates() noexcept;
// At the end of each. False: it is another call.
bool track_graph_update(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept;

}  // namespace kerncap::cuda
