// The kernarg segment of a replay: explicit arguments as captured, hidden ones rebuilt by kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/driver.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

// The launch, as far as arguments depend on it.
struct Shape {
  std::uint64_t grid[3];                        // work-items
  std::uint32_t block[3];
  std::uint32_t dynamic_lds_bytes;
};

// For the captured code object, or for the variant: that one has hidden arguments of its own, where its file says.
// Recomputes what depends on the launch's shape. Pointers into captured memory stay as they are: that memory is there
// again; other hidden pointers (queue, hostcall buffer, ...) become null and are the driver's to fill. A hidden pointer
// that only the variant has is null.
[[nodiscard]] std::vector<std::byte> rebuild_kernarg(const Plan& plan, bool for_variant, const Shape& shape);

}  // namespace kerncap::replay
