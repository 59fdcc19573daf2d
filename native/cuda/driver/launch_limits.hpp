#pragma once

#include <string>

#include "cuda/api.hpp"
#include "replay/driver.hpp"

namespace kerncap::cuda {

// What the launch has more of than this kernel may have, for people, to follow the driver's word; empty: none of this.
[[nodiscard]] std::string why_refused(CUdevice device, CUfunction function, const replay::Launch& launch);

}  // namespace kerncap::cuda
