// One capture on its way, and what is kept for it on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "capture/device.hpp"
#include "cuda/allocations.hpp"
#include "cuda/changed.hpp"
#include "cuda/copier.hpp"
#include "cuda/graphs.hpp"
#include "cuda/launch.hpp"

namespace kerncap::cuda {

// Streams, events and our kernel belong to a context: each has its own.
struct Engines {
  OwnMemory memory;
  Copier copier{memory};                     // for the thread that holds the window
  Changed changed;
  Copier sender{memory};                     // for our own thread
};

// Of a kernel in a graph: what is run before it.
struct FromGraph {
  const WatchedGraph* graph = nullptr;
  std::size_t node = 0;
  CUgraphExec before = nullptr;
};

struct Job : capture::Dispatch {
  Kernel kernel;
  CUcontext context = nullptr;
  std::shared_ptr<Engines> engines;          // of the context
  std::uint32_t device = 0;
  CUstream stream = nullptr;
  const LaunchCall* launch = nullptr;        // until its kernel runs
  std::uint64_t index_of_kernel = 0;
  std::vector<std::byte> parameters;         // as the kernel sees them
  std::vector<Allocation> regions;           // cost.copied_bytes in all
  // Copy of all regions on the device, laid out as Copier::layout() says; 0 where they went to the collector at once.
  CUdeviceptr pre = 0;
  // What the kernel changed: copies of those chunks, one behind the other. `changed` has a word a chunk, region after
  // region; empty: nothing was compared, and there is no post-state here.
  CUdeviceptr post = 0;
  std::vector<std::uint32_t> changed;
  CUevent before = nullptr;
  CUevent after = nullptr;
  std::optional<FromGraph> from_graph;
  bool is_sent = false;                      // the collector has all of it
};

}  // namespace kerncap::cuda
