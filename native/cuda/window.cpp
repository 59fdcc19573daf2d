// While a dispatch is captured other threads' calls wait: all driver calls are shown to us then. Launches, and copies from or to
// the host, go on between two callbacks and are counted all the time.
#include "cuda/callbacks.hpp"
#include "cuda/snapshots.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {

void Snapshots::open_window() noexcept {
  m_own.window.store(true, std::memory_order_seq_cst);
  watch_everything();
}

void Snapshots::close_window() noexcept {
  watch_what_matters();
  m_own.window.store(false, std::memory_order_seq_cst);
  this_thread().holds_window = false;
  {
    const std::lock_guard lock(m_mutex);
    m_changed.notify_all();
  }
  m_window_mutex.unlock();
}

bool Snapshots::stand_aside() noexcept {
  if (!m_own.window.load(std::memory_order_seq_cst) || this_thread().holds_window) return true;
  const Inside inside;
  std::unique_lock lock(m_mutex);
  return m_changed.wait_for(lock, 4 * tool()->channel->wait_limit(), [this] { return !m_own.window.load(); });
}

void Snapshots::step_in(std::atomic<std::uint32_t>& kind) noexcept {
  kind.fetch_add(1, std::memory_order_seq_cst);
  this_thread().under_way = &kind;
}

// Nothing where this thread is not counted: its call is the one that is captured.
void Snapshots::step_out() noexcept {
  ThisThread& thread = this_thread();
  if (thread.under_way == nullptr) return;
  thread.under_way->fetch_sub(1, std::memory_order_seq_cst);
  thread.under_way = nullptr;
}

// Either the window sees the call, or the call sees the window.
void Snapshots::begin_call(std::atomic<std::uint32_t>& kind) noexcept {
  do {
    step_out();   // of the round before, or of a call whose end was not shown to us
    if (!stand_aside()) return;
    step_in(kind);
  } while (m_own.window.load(std::memory_order_seq_cst) && !this_thread().holds_window);
}

}  // namespace kerncap::cuda
