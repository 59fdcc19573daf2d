// What the runtime calls when a queue fails or a kernel touches what it may not. Nearly all programs abort from there.
#pragma once

#include "hsa/hsa_headers.hpp"

namespace kerncap::hsa {

using ErrorCallback = void (*)(hsa_status_t status, hsa_queue_t* source, void* data);

// Takes the times of what has ended first, then calls what the program named for the errors of a queue.
struct QueueErrors {
  ErrorCallback call;
  void* data;
  // Puts ours in the program's place while we profile. What it makes lives as long as the process, as queues of ours do.
  static void take_part(ErrorCallback& callback, void*& data) noexcept;
};

// The same for accesses that no queue's callback hears of. To be called once in a life of the runtime.
void expect_memory_faults() noexcept;

}  // namespace kerncap::hsa
