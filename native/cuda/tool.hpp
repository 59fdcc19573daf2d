// All that the library knows, in one object that is made once and never destroyed: programs call the driver after
// static destructors have run.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <string_view>

#include "capture/channel.hpp"
#include "cuda/allocations.hpp"
#include "cuda/function_table.hpp"
#include "cuda/graph_bodies.hpp"
#include "cuda/graph_variants.hpp"
#include "cuda/graphs.hpp"
#include "cuda/images.hpp"
#include "cuda/leaving.hpp"
#include "cuda/modules.hpp"
#include "cuda/own_process.hpp"
#include "cuda/profiler.hpp"
#include "cuda/replacements.hpp"
#include "cuda/snapshots.hpp"
#include "cuda/streams.hpp"
#include "cuda/this_thread.hpp"

namespace kerncap::cuda {

struct Tool {
  Tool(OwnProcess& its, capture::Channel& conversation) noexcept
      : own(its), channel(&conversation), snapshots(own, conversation), leaving(own) {
    own.functions = &functions;
  }

  OwnProcess& own;                       // all zeros in a child
  capture::Channel* const channel;
  CUpti_SubscriberHandle subscriber = nullptr;
  Allocations allocations;
  Modules modules;
  Images images;
  FunctionTable functions;
  Streams streams;
  Graphs graphs;
  GraphBodies graph_bodies;
  Snapshots snapshots;
  Leaving leaving;
  Profiler profiler;
  Replacements replacements;
  GraphVariants graph_variants;
  std::atomic<bool> facts_sent{false};
  std::uint32_t device_count = 1;        // set with the facts
};

// Null before InitializeInjection has run.
[[nodiscard]] Tool* tool() noexcept;

// Of what begins to wait now.
[[nodiscard]] inline std::chrono::steady_clock::time_point wait_deadline() noexcept {
  return std::chrono::steady_clock::now() + tool()->channel->wait_limit();
}

void warn(std::string_view text) noexcept;
// Describes machine and devices to the collector, once. Calls the driver.
void send_facts() noexcept;

// Calls of ours come back to our own callbacks: those do nothing on a thread that is inside. Nor can the thread be
// cancelled there: our waits would be where it ends, with our locks held, though its launches are no such place.
class Inside {
 public:
  Inside() noexcept {
    if (this_thread().inside++ == 0) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &m_cancel_state);
  }
  ~Inside() {
    if (--this_thread().inside == 0) pthread_setcancelstate(m_cancel_state, nullptr);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  [[nodiscard]] static bool is() noexcept { return this_thread().inside != 0; }

 private:
  int m_cancel_state = PTHREAD_CANCEL_ENABLE;
};

}  // namespace kerncap::cuda
