// Driver calls that submit or give up something at any moment between their entry and their end: no state is taken while one is
// under way on another thread.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

enum class UnderWay : std::uint8_t {
  nothing,
  copy,          // from or to the host: may take long, piece by piece
  submission,    // of work for the device; returns at once, unless a queue is full
  launch,        // of a kernel: the same
  graph_launch,  // the same
  stream_end,    // a stream goes, and with it a handle that we ask
  context_end,   // a context, and with it more of them
  code_end,      // a module or a library: the same
  memory_end,    // memory goes, and leaves our list within the call's entry: counted until then
  rights,        // to memory change, or what it is mapped to, and our list follows at the call's end
  recording,     // of a graph begins, which some calls of ours would spoil
};

[[nodiscard]] UnderWay under_way(CUpti_CallbackId call) noexcept;
// All of a kind.
[[nodiscard]] std::span<const CUpti_CallbackId> calls_of(UnderWay what) noexcept;

}  // namespace kerncap::cuda
