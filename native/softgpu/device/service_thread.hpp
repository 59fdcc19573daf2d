// Threads of the software GPU within the program's process: never joined, deaf to the program's signals.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

#include "softgpu/exec/thread_slice.hpp"

namespace kerncap::softgpu {

template <typename Function>
void start_service_thread(const char* name, Function function) {
  // Blocked before the thread exists, so that it inherits the mask; faults of its own stay deliverable.
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigdelset(&blocked, fault);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  std::thread([name, function = std::move(function)]() mutable {
    pthread_setname_np(pthread_self(), name);
    ask_for_slices(k_service_slice_ns);
    function();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace kerncap::softgpu
