// Stands in for the interpreter where only packets matter: dispatches are kept for the test to look at and to end.
#pragma once

#include <vector>

#include "softgpu/exec/engine.hpp"

namespace kerncap::softgpu::test {

struct Submitted {
  Dispatch dispatch;
  Engine::Callback done;
};

// Of all engines of this process, in order; the test takes out what it ends.
[[nodiscard]] std::vector<Submitted>& submitted();

// Ends one, as a worker would.
void end(std::size_t index, const DispatchOutcome& outcome = {});

}  // namespace kerncap::softgpu::test
