// All that the library knows, in one object that is made once and never destroyed: programs call the driver after
// static destructors have run.
#pragma once

#include <atomic>
#include <string>

#include "capture/channel.hpp"
#include "cuda/allocations.hpp"
#include "cuda/function_table.hpp"
#include "cuda/graphs.hpp"
#include "cuda/modules.hpp"
#include "cuda/profiler.hpp"
#include "cuda/snapshots.hpp"
#include "cuda/streams.hpp"

namespace kerncap::cuda {

struct Tool {
  std::atomic<bool> enabled{false};      // false in a forked child
  capture::Channel* channel = nullptr;
  CUpti_SubscriberHandle subscriber = nullptr;
  Allocations allocations;
  Modules modules;
  FunctionTable functions;
  Streams streams;
  Graphs graphs;
  Snapshots snapshots;
  Profiler profiler;
  std::atomic<bool> facts_sent{false};
  std::uint32_t device_count = 1;        // set with the facts
};

// Null before InitializeInjection has run.
[[nodiscard]] Tool* tool() noexcept;

void warn(const std::string& text) noexcept;
// Describes machine and devices to the collector, once. Calls the driver.
void send_facts() noexcept;

// Calls of ours come back to our own callbacks: those do nothing on a thread that is inside.
class Inside {
 public:
  Inside() noexcept { ++depth(); }
  ~Inside() { --depth(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  [[nodiscard]] static bool is() noexcept { return depth() != 0; }
  // Set on a thread while it loads a module that is ours.
  [[nodiscard]] static bool& own_module() noexcept {
    static thread_local bool t_own = false;
    return t_own;
  }

 private:
  static int& depth() noexcept {
    static thread_local int t_depth = 0;
    return t_depth;
  }
};

}  // namespace kerncap::cuda
