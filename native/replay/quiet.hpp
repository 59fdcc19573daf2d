#pragma once

namespace kerncap::replay {

// What the kernel and the runtime print from now on is for nobody.
void be_quiet();

}  // namespace kerncap::replay
