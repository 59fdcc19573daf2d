// Keeps calls and makes them later; see the header for why.
#include "capture/deferred_calls.hpp"

namespace kerncap::capture {

std::uint64_t DeferredCalls::begin_capture() noexcept {
  m_busy.fetch_add(1, std::memory_order_seq_cst);
  const std::lock_guard lock(m_mutex);
  return m_order.begin();
}

void DeferredCalls::end_capture(std::uint64_t number) noexcept {
  std::unique_lock lock(m_mutex);
  m_order.end(number);
  m_busy.fetch_sub(1, std::memory_order_seq_cst);
  issue(lock);
  m_changed.notify_all();
}

std::uint64_t DeferredCalls::begun() const noexcept {
  const std::lock_guard lock(m_mutex);
  return m_order.now();
}

// One thread issues at a time, without the lock: a call may take long, and may call back into the program.
void DeferredCalls::issue(std::unique_lock<std::mutex>& lock) noexcept {
  if (m_issuing) return;
  m_issuing = true;
  while (!m_deferred.empty() && m_order.passed(m_deferred.front().moment)) {
    const Deferred next = std::move(m_deferred.front());
    m_deferred.pop_front();
    lock.unlock();
    next.call();
    lock.lock();
    m_busy.fetch_sub(1, std::memory_order_seq_cst);
  }
  m_issuing = false;
}

bool DeferredCalls::defer(Call call) noexcept {
  if (m_busy.load(std::memory_order_seq_cst) == 0) return false;
  const std::lock_guard lock(m_mutex);
  if (m_order.idle() && m_deferred.empty() && !m_issuing) return false;
  m_busy.fetch_add(1, std::memory_order_seq_cst);
  m_deferred.push_back({m_order.now(), std::move(call)});
  return true;
}

bool DeferredCalls::wait_for_turn(std::chrono::milliseconds limit) noexcept {
  if (m_busy.load(std::memory_order_seq_cst) == 0) return true;
  std::unique_lock lock(m_mutex);
  const std::uint64_t moment = m_order.now();
  return m_changed.wait_for(lock, limit, [&] {
    return m_order.passed(moment) && (m_deferred.empty() || m_deferred.front().moment > moment) && !m_issuing;
  });
}

}  // namespace kerncap::capture
