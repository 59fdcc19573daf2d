// All that the library knows, in one object that is made once and never destroyed: runtimes submit packets
// after static destructors have run.
#pragma once

#include <atomic>
#include <utility>

#include "capture/argument_places.hpp"
#include "capture/channel.hpp"
#include "capture/regions.hpp"
#include "hsa/agents.hpp"
#include "hsa/copies.hpp"
#include "hsa/kernels.hpp"
#include "hsa/modules.hpp"
#include "hsa/profiler.hpp"
#include "hsa/queues.hpp"
#include "hsa/replacements.hpp"
#include "hsa/snapshots.hpp"

namespace kerncap::hsa {

struct Tool {
  // `first_capture`: the number of the first. The collector knows captures by their numbers.
  Tool(capture::Channel& conversation, Agents found, std::uint64_t first_capture = 0)
      : channel(&conversation), agents(std::move(found)), snapshots(conversation, first_capture) {}

  std::atomic<bool> enabled{false};      // false in a forked child, and once the runtime shuts down: our threads end
  std::atomic<bool> gone{false};         // the runtime is shut down: nothing of it may be touched
  std::uint32_t references = 1;          // of the program to the runtime; OnLoad runs within the first hsa_init
  capture::Channel* channel;
  Agents agents;
  capture::ProgramMemory memory;
  capture::ArgumentPlaces arguments;
  KernelTable kernels;
  Modules modules;
  Queues queues;
  Copies copies;
  Snapshots snapshots;
  Profiler profiler;
  Replacements replacements;

  [[nodiscard]] bool profiling() const noexcept { return channel->mode() == capture::Mode::profile; }
  [[nodiscard]] bool replacing() const noexcept { return channel->mode() == capture::Mode::replace; }
};

// Null until OnLoad has succeeded; hooks are only installed after that.
[[nodiscard]] Tool* tool() noexcept;
[[nodiscard]] inline bool enabled() noexcept {
  const Tool* known = tool();
  return known != nullptr && known->enabled.load(std::memory_order_relaxed);
}

// Gives back what we hold of the runtime, once for each of its lives. Bounded.
void end() noexcept;

}  // namespace kerncap::hsa
