// What it means to run the nodes before a kernel of a graph once more than the program does.
#pragma once

#include <vector>

#include "core/result.hpp"
#include "cuda/allocations.hpp"
#include "cuda/graphs.hpp"
#include "cuda/put_back.hpp"

namespace kerncap::cuda {

// How each region is put back afterwards. Threads of the program may fill pinned memory meanwhile, and would lose what they wrote:
// it is put back only where a node is given an address in it. Unsupported where a copy changes what no capture holds.
[[nodiscard]] core::Result<std::vector<PutBack>> how_to_put_back(const WatchedGraph& graph, std::size_t node,
                                                                 const std::vector<Allocation>& regions, std::uint32_t device);

}  // namespace kerncap::cuda
