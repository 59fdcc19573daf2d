// The store's lock: shared to use it, exclusive to collect. docs/store.md, "Locks".
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <mutex>

#include "core/result.hpp"
#include "core/unique_fd.hpp"

namespace kerncap::core {

class StoreLock;

// Held until it is destroyed.
class [[nodiscard]] SharedLock {
 public:
  SharedLock(SharedLock&& other) noexcept : m_lock(std::exchange(other.m_lock, nullptr)) {}
  SharedLock& operator=(SharedLock&&) = delete;
  ~SharedLock();

 private:
  friend class StoreLock;
  explicit SharedLock(StoreLock* lock) noexcept : m_lock(lock) {}
  StoreLock* m_lock;
};

class [[nodiscard]] ExclusiveLock {
 public:
  ExclusiveLock(ExclusiveLock&&) noexcept = default;

 private:
  friend class StoreLock;
  ExclusiveLock() = default;
  UniqueFd m_gate;  // closing a descriptor unlocks it
  UniqueFd m_lock;
};

class StoreLock {
 public:
  // `folder` is the store's, borrowed for as long as this lives.
  explicit StoreLock(int folder) noexcept : m_folder(folder) {}

  // Waits as long as it takes, or until the user interrupts: an error of code `timeout`. A thread may take it while its process holds it already: a second queue at the gate
  // would wait for a collector that waits for the first.
  [[nodiscard]] Result<SharedLock> shared();

  // An error of code `timeout` if others hold the store for longer than `wait`.
  [[nodiscard]] Result<ExclusiveLock> exclusive(std::chrono::milliseconds wait);

 private:
  friend class SharedLock;
  [[nodiscard]] Result<bool> try_shared();   // false: others have it
  [[nodiscard]] Result<bool> try_acquire();
  void release() noexcept;

  int m_folder;
  std::mutex m_mutex;
  std::size_t m_holders = 0;  // threads of this process
  pid_t m_process = 0;        // a forked child needs locks of its own: it shares its parent's otherwise
  UniqueFd m_gate_fd;
  UniqueFd m_lock_fd;
};

}  // namespace kerncap::core
