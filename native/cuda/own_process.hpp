// What holds in the process that we were loaded into, and not in its children. They have our memory, but none of our
// threads, and our locks as somebody held them: nothing of ours may run there.
#pragma once

#include <atomic>

namespace kerncap::cuda {

struct OwnProcess {
  std::atomic<bool> is_ours{true};
  std::atomic<bool> enabled{false};      // callbacks do something
};

// In memory that the kernel clears for every child, however it is made: pthread_atfork() tells of fork() alone, not of
// _Fork() or clone(). Kernels before 4.14 do not. Null: there is no memory. Never freed.
[[nodiscard]] OwnProcess* make_own_process() noexcept;

}  // namespace kerncap::cuda
