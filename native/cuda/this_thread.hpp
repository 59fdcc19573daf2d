// What the library knows of the program's thread that it runs on: in one place, as each look costs a call.
#pragma once

#include <atomic>
#include <cstdint>

namespace kerncap::cuda {

struct ThisThread {
  int inside = 0;                                      // calls of ours, of which callbacks know nothing
  bool loads_own_module = false;
  bool holds_window = false;                           // between the entry and the exit of a launch that is captured
  std::atomic<std::uint32_t>* under_way = nullptr;     // where its call is counted
};

inline ThisThread& this_thread() noexcept {
  static thread_local constinit ThisThread t_this;
  return t_this;
}

}  // namespace kerncap::cuda
