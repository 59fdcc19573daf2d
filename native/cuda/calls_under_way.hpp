// Driver calls that submit or give up something at any moment between their entry and their end: no state is taken while one is
// under way on another thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

enum class UnderWay : std::uint8_t {
  nothing,
  copy,          // from or to the host: may take long, piece by piece
  submission,    // of work for the device; returns at once, unless a queue is full
  launch,        // of kernels or graphs: the same, and more to do about it
  ending,        // a stream or a context goes, and with it handles that we ask
};

[[nodiscard]] UnderWay under_way(CUpti_CallbackId call) noexcept;
[[nodiscard]] std::array<std::span<const CUpti_CallbackId>, 4> calls_under_way() noexcept;
// Those among them with which the program gives a context up.
[[nodiscard]] bool ends_context(CUpti_CallbackId call) noexcept;
// The calls of which ends_context() is true.
[[nodiscard]] std::span<const CUpti_CallbackId> context_ends() noexcept;

}  // namespace kerncap::cuda
