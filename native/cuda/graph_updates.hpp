// The driver calls about graphs, and what comes of those that change one which is executable already.
#pragma once

#include <span>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

// Those that make or end graphs, executable ones and conditional nodes.
[[nodiscard]] std::span<const CUpti_CallbackId> graph_calls() noexcept;
[[nodiscard]] std::span<const CUpti_CallbackId> graph_updates() noexcept;
// The second version has two members more, which say for which context a kernel is.
[[nodiscard]] CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1& from) noexcept;
[[nodiscard]] CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v3& from) noexcept;
// At the end of each. False: it is another call.
bool track_graph_update(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept;

}  // namespace kerncap::cuda
