// Threads of the software GPU within the program's process: never joined, deaf to the program's signals.
#pragma once

#include <pthread.h>

#include <thread>
#include <utility>

#include "core/no_signals.hpp"
#include "softgpu/exec/thread_slice.hpp"

namespace kerncap::softgpu {

template <typename Function>
void start_service_thread(const char* name, Function function) {
  const core::NoSignals of_the_program(core::NoSignals::Faults::delivered);
  std::thread([name, function = std::move(function)]() mutable {
    pthread_setname_np(pthread_self(), name);
    ask_for_slices(k_service_slice_ns);
    function();
  }).detach();
}

}  // namespace kerncap::softgpu
