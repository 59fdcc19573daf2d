// What holds in the process that we were loaded into, and not in its children. They have our memory, but none of our
// threads, and our locks as somebody held them: nothing of ours may run there.
#pragma once

#include <atomic>
#include <cstdint>

#include "capture/protocol.hpp"

namespace kerncap::cuda {

class FunctionTable;

// Every launch of the program looks at the first line of it in the processor's cache.
struct alignas(64) OwnProcess {
  std::atomic<bool> is_ours{true};
  std::atomic<bool> enabled{false};            // callbacks do something
  std::atomic<bool> window{false};             // a dispatch is being captured: other threads' calls wait
  std::atomic<bool> leaving{false};            // nothing is wanted any more
  std::atomic<std::uint32_t> copying{0};       // calls under way
  std::atomic<std::uint32_t> launching{0};     // or submitting anything else
  std::atomic<std::uint32_t> ending{0};        // or changing what we ask the driver about
  std::atomic<std::uint64_t> launches{0};      // all of them
  std::atomic<const void*> caller{nullptr};    // see note_caller()
  const FunctionTable* functions = nullptr;
  std::atomic<std::uint64_t>* matched = nullptr;           // by rule: how many dispatches it has seen
  std::uint64_t first_wanted[capture::k_max_rules] = {};   // by rule: those before it are only counted; 0: look at the launch's shape
};

// The one thread that was ever in a callback of ours, by an address of its own; that of `own` where there were several. A thread may get the
// address of one that has ended: that one is in no callback.
[[gnu::always_inline]] inline void note_caller(OwnProcess& own, const void* thread) noexcept {
  const void* known = own.caller.load(std::memory_order_relaxed);
  if (known == thread || known == &own) return;
  if (known != nullptr || !own.caller.compare_exchange_strong(known, thread, std::memory_order_relaxed)) own.caller.store(&own);
}

// In memory that the kernel clears for every child, however it is made: pthread_atfork() tells of fork() alone, not of
// _Fork() or clone(). Kernels before 4.14 do not. Null: there is no memory. Never freed.
[[nodiscard]] OwnProcess* make_own_process() noexcept;

}  // namespace kerncap::cuda
