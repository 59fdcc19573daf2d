// flock(2) on two files: a gate that lets a waiting collector have its turn, and the lock itself.
#include "core/store_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "core/file.hpp"
#include "core/interrupt.hpp"

namespace kerncap::core {
namespace {

constexpr std::chrono::milliseconds k_poll{5};

// Nothing here waits in the kernel: a signal between two waits would go unseen until the lock is free.
Error interrupted_error() { return {ErrorCode::timeout, "interrupted while another process used it"}; }

// True if it was locked, false if others have it.
Result<bool> try_lock(int fd, int operation) {
  while (::flock(fd, operation | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return errno_error("cannot lock the store", errno);
  }
  return true;
}

// True if it was locked, false if others had it until the deadline.
Result<bool> lock_until(int fd, std::chrono::steady_clock::time_point deadline) {
  const InterruptWatch watch;
  for (;;) {
    auto locked = try_lock(fd, LOCK_EX);
    if (!locked || locked.value()) return locked;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (watch.interrupted()) return interrupted_error();
    std::this_thread::sleep_for(k_poll);
  }
}

}  // namespace

SharedLock::~SharedLock() {
  if (m_lock != nullptr) m_lock->release();
}

Result<SharedLock> StoreLock::shared() {
  const InterruptWatch watch;
  for (;;) {
    auto acquired = try_shared();
    if (!acquired) return acquired.error();
    if (acquired.value()) return SharedLock(this);
    if (watch.interrupted()) return interrupted_error();
    std::this_thread::sleep_for(k_poll);
  }
}

Result<bool> StoreLock::try_shared() {
  const std::lock_guard guard(m_mutex);
  if (m_process != ::getpid()) {
    m_process = ::getpid();
    m_holders = 0;
    m_gate_fd.reset();
    m_lock_fd.reset();
  }
  if (m_holders == 0) {
    auto acquired = try_acquire();
    if (!acquired || !acquired.value()) return acquired;
  }
  ++m_holders;
  return true;
}

Result<bool> StoreLock::try_acquire() {
  if (!m_lock_fd.valid()) {
    auto gate = open_at(m_folder, "gate", O_RDONLY);
    if (!gate) return gate.error();
    auto lock = open_at(m_folder, "lock", O_RDONLY);
    if (!lock) return lock.error();
    m_gate_fd = std::move(gate).value();
    m_lock_fd = std::move(lock).value();
  }
  auto entered = try_lock(m_gate_fd.get(), LOCK_SH);
  if (!entered || !entered.value()) return entered;
  auto locked = try_lock(m_lock_fd.get(), LOCK_SH);
  ::flock(m_gate_fd.get(), LOCK_UN);
  return locked;
}

void StoreLock::release() noexcept {
  const std::lock_guard guard(m_mutex);
  // In a child that was forked meanwhile the lock is the parent's to release.
  if (m_process != ::getpid() || m_holders == 0) return;
  if (--m_holders == 0) ::flock(m_lock_fd.get(), LOCK_UN);
}

Result<ExclusiveLock> StoreLock::exclusive(std::chrono::milliseconds wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  ExclusiveLock held;
  auto gate = open_at(m_folder, "gate", O_RDWR);  // writable: NFS wants that for an exclusive lock
  if (!gate) return gate.error();
  auto lock = open_at(m_folder, "lock", O_RDWR);
  if (!lock) return lock.error();
  held.m_gate = std::move(gate).value();
  held.m_lock = std::move(lock).value();
  for (const int fd : {held.m_gate.get(), held.m_lock.get()}) {
    auto locked = lock_until(fd, deadline);
    if (!locked) return locked.error();
    if (!locked.value()) return Error{ErrorCode::timeout, "in use by another process"};
  }
  return held;
}

}  // namespace kerncap::core
