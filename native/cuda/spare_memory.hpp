// Host memory for the moment when the process may have no more: nothing of ours then throws through the driver, or ends
// the program; what is under way winds up, and callbacks do nothing from then on.
#pragma once

namespace kerncap::cuda {

// Something had to be taken from it: there is little left.
[[nodiscard]] bool spare_memory_is_used() noexcept;

}  // namespace kerncap::cuda
