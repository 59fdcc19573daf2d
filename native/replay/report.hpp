// The result of a replay as one JSON object. Written, never read, here: no library is needed for that.
#pragma once

#include <string>

#include "core/result.hpp"
#include "replay/engine.hpp"

namespace kerncap::replay {

[[nodiscard]] std::string report_outcome(const Outcome& outcome, const Driver::Opened& device);
// What stood in the way before the kernel ran.
[[nodiscard]] std::string report_error(const core::Error& error);
// What the kernel did wrong.
[[nodiscard]] std::string report_fault(const core::Error& error);

}  // namespace kerncap::replay
