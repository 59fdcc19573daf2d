// What CUPTI calls.
#pragma once

#include "capture/protocol.hpp"
#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

// Subscribes, and asks for the few calls that matter.
[[nodiscard]] core::Result<void> subscribe(capture::Mode mode) noexcept;
// No callback comes after this.
void unsubscribe() noexcept;
// While a launch is held every driver call is seen, so that other threads can be made to wait.
void watch_everything() noexcept;
void watch_what_matters() noexcept;
// No new callback comes, though we are still the subscriber.
void watch_nothing() noexcept;

}  // namespace kerncap::cuda
