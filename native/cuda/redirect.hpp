// How a launch comes to run the variant: CUPTI shows a driver call's parameters at its entry, and the driver launches what
// stands there when the callback returns.
#pragma once

#include "cuda/cuda_headers.hpp"
#include "cuda/launch.hpp"
#include "cuda/replacements.hpp"

namespace kerncap::cuda {

enum class Redirected {
  kept,     // the captured kernel runs: the variant is not for such launches
  failed,   // likewise, for a reason that tell_failure() tells
  yes,
};

// At the entry of a call that launches `kernel`, `parameters` its own.
//
// That the driver takes what is put there is not documented. Whether it does is tried once in a process, with a launch that is
// recorded and never runs; where it does not, nothing is replaced, and the collector is told.
[[nodiscard]] Redirected redirect(CUpti_CallbackId call, void* parameters, const Kernel& kernel, const LaunchCall& asked,
                                  Variant& variant) noexcept;
// At the end of a call for which redirect() gave `failed`, on the same thread, if the driver has taken the launch: what it refuses,
// the variant could not run either. Tells the collector once for each variant.
void tell_failure() noexcept;
// At the entry of a call of ours: the one that is recorded.
void redirect_trial(CUpti_CallbackId call, void* parameters) noexcept;

}  // namespace kerncap::cuda
