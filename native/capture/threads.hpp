// Threads of ours inside the user's program: detached, named, and deaf to the program's signals.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <chrono>

#include "core/no_signals.hpp"

namespace kerncap::capture {

// How long the runtime's end may wait for one.
inline constexpr std::chrono::seconds k_end_limit{3};

// Must outlive the thread, and lives as long as the process here.
class Thread {
 public:
  bool start(const char* name, void (*body)(void*), void* argument) noexcept {
    m_body = body;
    m_argument = argument;
    m_ended.store(false, std::memory_order_relaxed);
    const core::NoSignals of_the_program;
    pthread_t thread;
    const int failed = pthread_create(
        &thread, nullptr,
        [](void* self) -> void* {
          auto& ours = *static_cast<Thread*>(self);
          ours.m_body(ours.m_argument);
          ours.m_ended.store(true, std::memory_order_release);
          return nullptr;
        },
        this);
    if (failed != 0) {
      m_ended.store(true, std::memory_order_relaxed);
      return false;
    }
    pthread_setname_np(thread, name);
    pthread_detach(thread);
    return true;
  }

  // Waits until its body has returned, at most so long. A thread that was never started has ended.
  [[nodiscard]] bool ended(std::chrono::milliseconds limit) const noexcept {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!m_ended.load(std::memory_order_acquire)) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      const timespec pause{0, 100'000};
      ::nanosleep(&pause, nullptr);
    }
    return true;
  }

 private:
  void (*m_body)(void*) = nullptr;
  void* m_argument = nullptr;
  std::atomic<bool> m_ended{true};
};

}  // namespace kerncap::capture
