// How the library leaves a program that goes on behind its last capture.
//
// CUPTI makes each launch slower for as long as it is in the process, whether or not somebody subscribes (100 to 400 ns with CUDA 13.0):
// cuptiFinalize() takes it away. But that waits for what runs on the devices, and lets no launch pass meanwhile: a kernel that waits for
// a later launch would wait for ever. And a thread that is in a callback then faults behind it (both were seen with CUDA 13.0). So it
// is called by the one thread whose calls were ever shown to us, at the end of one of them, when nothing runs. Where several threads call,
// or nothing of this comes in time, the subscriber goes, and CUPTI stays.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "cuda/own_process.hpp"

namespace kerncap::cuda {

class Leaving {
 public:
  explicit Leaving(OwnProcess& own) noexcept : m_own(own) {}
  // On our own thread, once nothing is wanted any more. No callback comes behind it.
  void leave() noexcept;
  // On the program's threads, at the exit of calls that wait for the device.
  void at_exit() noexcept;

 private:
  OwnProcess& m_own;
  std::mutex m_mutex;
  std::condition_variable m_decided;
  bool m_is_gone = false;
  std::chrono::steady_clock::time_point m_next_look;   // of the one thread
};

}  // namespace kerncap::cuda
