// While a dispatch is captured other threads' calls wait: all driver calls are shown to us then, and copies from or to the
// host, which go on between two callbacks, are counted all the time.
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

// With the window open, so that no copy begins. For a moment CUPTI shows no call at all then, and the end of a copy that is
// under way would be missed: it was too long to be waited for, and its own end comes back here.
void Snapshots::watch_less() noexcept {
  if (m_copies.load(std::memory_order_seq_cst) != 0) return;
  watch_everything(false);
  m_watches_all.store(false);
}

void Snapshots::stand_aside() noexcept {
  if (!m_window.load(std::memory_order_seq_cst) || t_holds_window) return;
  const Inside inside;
  std::unique_lock lock(m_mutex);
  m_changed.wait_for(lock, 4 * tool()->channel->wait_limit(), [this] { return !m_window.load(); });
}

// Either the window sees the copy, or the copy sees the window.
void Snapshots::begin_copy() noexcept {
  for (;;) {
    m_copies.fetch_add(1, std::memory_order_seq_cst);
    if (!m_window.load(std::memory_order_seq_cst) || t_holds_window) return;
    m_copies.fetch_sub(1, std::memory_order_seq_cst);
    stand_aside();
  }
}

void Snapshots::end_copy() noexcept {
  const bool was_last = m_copies.fetch_sub(1, std::memory_order_seq_cst) == 1;
  if (!was_last || !m_watches_all.load() || !m_window_mutex.try_lock()) return;
  const Inside inside;
  m_window.store(true, std::memory_order_seq_cst);
  close_window();
}

}  // namespace kerncap::cuda
