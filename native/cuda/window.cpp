// While a dispatch is captured other threads' calls wait: all driver calls are shown to us then. Launches, and copies from or to
// the host, go on between two callbacks and are counted all the time.
#include "cuda/callbacks.hpp"
#include "cuda/snapshots.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {

void Snapshots::open_window() noexcept {
  m_window.store(true, std::memory_order_seq_cst);
  m_watches_all.store(true);
  watch_everything(true);
}

void Snapshots::close_window() noexcept {
  watch_less();
  m_window.store(false, std::memory_order_seq_cst);
  t_holds_window = false;
  {
    const std::lock_guard lock(m_mutex);
    m_changed.notify_all();
  }
  m_window_mutex.unlock();
}

// With the window open, so that no call begins. For a moment CUPTI shows no call at all then, and the end of one that is
// under way would be missed: it was too long to be waited for, and its own end comes back here.
void Snapshots::watch_less() noexcept {
  if (m_copying.load(std::memory_order_seq_cst) != 0 || m_launching.load(std::memory_order_seq_cst) != 0) return;
  watch_everything(false);
  m_watches_all.store(false);
}

bool Snapshots::stand_aside() noexcept {
  if (!m_window.load(std::memory_order_seq_cst) || t_holds_window) return true;
  const Inside inside;
  std::unique_lock lock(m_mutex);
  return m_changed.wait_for(lock, 4 * tool()->channel->wait_limit(), [this] { return !m_window.load(); });
}

void Snapshots::step_in(std::atomic<std::uint32_t>& kind) noexcept {
  kind.fetch_add(1, std::memory_order_seq_cst);
  t_under_way = &kind;
}

// Nothing where this thread is not counted: its call is the one that is captured, or the call's beginning was not shown to us.
bool Snapshots::step_out() noexcept {
  if (t_under_way == nullptr) return false;
  const bool was_last = t_under_way->fetch_sub(1, std::memory_order_seq_cst) == 1;
  t_under_way = nullptr;
  return was_last;
}

// Either the window sees the call, or the call sees the window.
void Snapshots::begin_call(std::atomic<std::uint32_t>& kind) noexcept {
  do {
    step_out();   // the end of the last one may not have been shown to us
    if (!stand_aside()) return;
    step_in(kind);
  } while (m_window.load(std::memory_order_seq_cst) && !t_holds_window);
}

void Snapshots::end_call() noexcept {
  const bool was_last = step_out();
  if (!was_last || !m_watches_all.load() || !m_window_mutex.try_lock()) return;
  const Inside inside;
  m_window.store(true, std::memory_order_seq_cst);
  close_window();
}

}  // namespace kerncap::cuda
