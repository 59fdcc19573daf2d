// Puts memory back that a graph's nodes have changed once too often.
#pragma once

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "cuda/allocations.hpp"
#include "cuda/changed.hpp"
#include "cuda/copier.hpp"

namespace kerncap::cuda {

// Of one region.
enum class PutBack : std::uint8_t {
  nothing,
  whole,       // nobody else writes there
  words,       // host memory, where threads of the program may write meanwhile: what changed, and has not changed again
  warning,     // theirs, as far as anybody can tell: that something changed is said
  others,      // of other processes or GPUs: the same, and the processor does not touch it
};

// `kept`: all regions as they are to be, laid out as by Copier::layout(). Threads of the program go on.
core::Result<void> put_back(const std::vector<Allocation>& regions, CUdeviceptr kept, const std::vector<PutBack>& how,
                            Copier& copier, Changed& changed) noexcept;

}  // namespace kerncap::cuda
