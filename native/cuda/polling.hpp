// Waits by asking the driver again and again: a wait inside the driver cannot be given up.
#pragma once

#include <chrono>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

using Deadline = std::chrono::steady_clock::time_point;

// What has come of a stream's work, or of a recorded event, as soon as it has ended or failed; CUDA_ERROR_NOT_READY if it has not by
// the deadline. Asks at least once.
[[nodiscard]] CUresult poll(CUstream stream, Deadline deadline) noexcept;
[[nodiscard]] CUresult poll(CUevent event, Deadline deadline) noexcept;

}  // namespace kerncap::cuda
