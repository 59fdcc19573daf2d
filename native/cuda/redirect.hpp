// How a launch comes to run the variant: CUPTI shows a driver call's parameters at its entry, and the driver launches what
// stands there when the callback returns.
#pragma once

#include "cuda/cuda_headers.hpp"
#include "cuda/launch.hpp"
#include "cuda/replacements.hpp"

namespace kerncap::cuda {

enum class Redirected {
  no,      // the collector has been told why, or the driver refuses the launch
  kept,    // the variant is not for such launches
  yes,
};

// At the entry of a call that launches `kernel`, `parameters` its own.
//
// That the driver takes what is put there is not documented. Whether it does is tried once in a process, with a launch that is
// recorded and never runs; where it does not, nothing is replaced, and the collector is told.
[[nodiscard]] Redirected redirect(CUpti_CallbackId call, void* parameters, const Kernel& kernel, const LaunchCall& asked,
                                  Variant& variant) noexcept;
// At the entry of a call of ours: the one that is recorded.
void redirect_trial(CUpti_CallbackId call, void* parameters) noexcept;

}  // namespace kerncap::cuda
