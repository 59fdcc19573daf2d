// Programs that end while their state is still on its way to the collector: what lies on the device goes with them.
#pragma once

namespace kerncap::cuda {

// Signals that would end the process at once wait until nothing is on its way. Only where the program left them at their
// defaults, and only from on to off; on twice is on. The caller lets no two threads in at a time.
void hold_endings(bool on) noexcept;

}  // namespace kerncap::cuda
