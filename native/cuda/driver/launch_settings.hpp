// What the program had set for its context, the kernel and the launch, and no other GPU API has. It comes with the
// plan, in lines of this back end:
//
//   line      = "limit" name bytes                  of the context, as the program had it
//             | "carveout" percent                  of the first-level cache that the kernel wants as shared memory
//             | "attribute" number hex              of the launch, CUlaunchAttributeValue's 64 bytes
//             | "cluster" x y z                     work-groups of a cluster; left out: none
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "replay/plan_line.hpp"

namespace kerncap::cuda {

struct LaunchSettings {
  std::map<std::string, std::uint64_t> limits;
  int carveout = -1;                            // the kernel has no wish
  std::map<std::uint32_t, std::vector<std::byte>> attributes;
  std::uint32_t cluster[3] = {};                // zeros: none was asked for

  // For replay::Driver::read_line().
  bool read_line(std::string_view what, replay::PlanLine& line);
};

}  // namespace kerncap::cuda
