// How the library leaves a program that goes on behind its last capture.
//
// CUPTI makes each launch slower for as long as it is in the process, whether or not somebody subscribes (0.05 to 0.2 us with CUDA 13.0, by
// how it is launched): cuptiFinalize() takes it away. But that waits for what runs on the devices, and lets no launch pass meanwhile: a kernel that waits for
// a later launch would wait for ever. And a thread that is in a callback then faults behind it (both were seen with CUDA 13.0). So it
// is called by the one thread that ever was in a callback of ours, at the end of a call of its that waited, when nothing runs. Where there
// are several threads, or nothing of this comes in time, the subscriber goes, and CUPTI stays.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "cuda/own_process.hpp"

namespace kerncap::cuda {

class Leaving {
 public:
  explicit Leaving(OwnProcess& own) noexcept;
  // On our own thread, once nothing is wanted any more. No new callback comes behind it, but where the program ends.
  void leave() noexcept;
  // On the program's threads, at the end of calls that waited for the device, while OwnProcess::leaving. True: CUPTI has gone.
  [[nodiscard]] bool look() noexcept;
  // From its exit() on CUPTI is left to it.
  void program_ends() noexcept;

 private:
  [[nodiscard]] bool is_alone() const noexcept;
  [[nodiscard]] bool take_cupti_away() noexcept;
  void decide() noexcept;

  OwnProcess& m_own;
  bool m_keeps_cupti = false;                          // KERNCAP_KEEP_CUPTI
  std::mutex m_mutex;
  std::condition_variable m_decided;
  bool m_is_gone = false;
  bool m_ends = false;
  std::chrono::steady_clock::time_point m_next_look;   // of the one thread
};

}  // namespace kerncap::cuda
