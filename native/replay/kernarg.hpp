// The kernarg segment of a replay: explicit arguments as captured, hidden ones rebuilt by kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/driver.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

// Recomputes what depends on the launch's shape. Pointers into captured memory stay as they are: that memory is
// there again; other hidden pointers (queue, hostcall buffer, ...) become null and are the driver's to fill.
[[nodiscard]] std::vector<std::byte> rebuild_kernarg(const Plan& plan, const std::uint32_t (&grid)[3],
                                                     const std::uint32_t (&block)[3],
                                                     std::uint32_t dynamic_lds_bytes);

}  // namespace kerncap::replay
