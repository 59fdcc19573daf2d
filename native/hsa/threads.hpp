// Threads of ours inside the user's program: detached, named, and deaf to the program's signals.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace kerncap::hsa {

inline bool start_thread(const char* name, void (*body)(void*), void* argument) noexcept {
  struct Start {
    void (*body)(void*);
    void* argument;
  };
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto* start = new Start{body, argument};
  pthread_t thread;
  const int failed = pthread_create(
      &thread, nullptr,
      [](void* given) -> void* {
        const Start copy = *static_cast<Start*>(given);
        delete static_cast<Start*>(given);
        copy.body(copy.argument);
        return nullptr;
      },
      start);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    delete start;
    return false;
  }
  pthread_setname_np(thread, name);
  pthread_detach(thread);
  return true;
}

}  // namespace kerncap::hsa
