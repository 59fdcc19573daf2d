// flock(2) on two files: a gate that lets a waiting collector have its turn, and the lock itself.
#include "core/store_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "core/file.hpp"

namespace kerncap::core {
namespace {

constexpr std::chrono::milliseconds k_poll{5};

Result<void> lock_file(int fd, int operation) {
  while (::flock(fd, operation) != 0) {
    if (errno != EINTR) return errno_error("cannot lock the store", errno);
  }
  return {};
}

// True if it was locked, false if others had it until the deadline.
Result<bool> lock_until(int fd, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return errno_error("cannot lock the store", errno);
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(k_poll);
  }
}

}  // namespace

SharedLock::~SharedLock() {
  if (m_lock != nullptr) m_lock->release();
}

Result<SharedLock> StoreLock::shared() {
  const std::lock_guard guard(m_mutex);
  if (m_process != ::getpid()) {
    m_process = ::getpid();
    m_holders = 0;
    m_gate_fd.reset();
    m_lock_fd.reset();
  }
  if (m_holders == 0) {
    if (auto status = acquire(); !status) return status.error();
  }
  ++m_holders;
  return SharedLock(this);
}

Result<void> StoreLock::acquire() {
  if (!m_lock_fd.valid()) {
    auto gate = open_at(m_folder, "gate", O_RDONLY);
    if (!gate) return gate.error();
    auto lock = open_at(m_folder, "lock", O_RDONLY);
    if (!lock) return lock.error();
    m_gate_fd = std::move(gate).value();
    m_lock_fd = std::move(lock).value();
  }
  if (auto status = lock_file(m_gate_fd.get(), LOCK_SH); !status) return status;
  auto status = lock_file(m_lock_fd.get(), LOCK_SH);
  ::flock(m_gate_fd.get(), LOCK_UN);
  return status;
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
