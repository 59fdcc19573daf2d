// All that the library knows, in one object that is made once and never destroyed: runtimes submit packets
// after static destructors have run.
#pragma once

#include <atomic>

#include "capture/channel.hpp"
#include "hsa/agents.hpp"
#include "hsa/allocations.hpp"
#include "hsa/argument_places.hpp"
#include "hsa/copies.hpp"
#include "hsa/kernels.hpp"
#include "hsa/modules.hpp"
#include "hsa/profiler.hpp"
#include "hsa/queues.hpp"
#include "hsa/snapshots.hpp"

namespace kerncap::hsa {

struct Tool {
  std::atomic<bool> enabled{false};      // false in a forked child, and once the runtime is shut down
  capture::Channel* channel = nullptr;
  Agents agents;
  AllocationMap allocations;
  ArgumentPlaces arguments;
  MappingMap mappings;
  PinnedMap pinned;
  ManagedRanges managed;
  KernelTable kernels;
  Modules modules;
  Queues queues;
  Copies copies;
  Snapshots snapshots;
  Profiler profiler;

  [[nodiscard]] bool profiling() const noexcept { return channel->mode() == capture::Mode::profile; }
};

// Null until OnLoad has succeeded; hooks are only installed after that.
[[nodiscard]] Tool* tool() noexcept;
[[nodiscard]] inline bool enabled() noexcept {
  const Tool* known = tool();
  return known != nullptr && known->enabled.load(std::memory_order_relaxed);
}

}  // namespace kerncap::hsa
