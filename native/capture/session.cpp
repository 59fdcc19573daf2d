// See the header for the order.
#include "capture/session.hpp"

#include <algorithm>

namespace kerncap::capture {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

// Pauses grow, so that a short kernel is not held for long and a long one costs no processor.
constexpr std::chrono::nanoseconds k_first_pause{10'000};
constexpr std::chrono::nanoseconds k_longest_pause{500'000};
constexpr std::chrono::nanoseconds k_calm_pause{5'000'000};   // while only kernels that hang are left to be looked at

}  // namespace

// In a forked child the lock may be held for ever: nobody takes it once the session ends there.
bool Session::add(std::unique_ptr<Dispatch>& dispatch) noexcept {
  if (ends()) return false;
  // Copies are deferred from here on: before the device can come to the dispatch.
  dispatch->number = m_deferred.begin_capture();
  dispatch->begun = Clock::now();
  std::unique_lock lock(m_mutex);
  if (ends()) {
    lock.unlock();
    m_deferred.end_capture(dispatch->number);
    return false;
  }
  m_waiting.push_back(std::move(dispatch));
  m_changed.notify_all();
  return true;
}

void Session::run() noexcept {
  {
    const std::lock_guard lock(m_mutex);
    m_running = true;
  }
  bool reached = false;
  while (std::unique_ptr<Dispatch> dispatch = next(reached)) carry_out(std::move(dispatch), reached);
  const std::lock_guard lock(m_mutex);
  m_running = false;
  m_changed.notify_all();
}

// The first dispatch that the device has come to. Not the first that was submitted: that one may wait for another.
std::unique_ptr<Dispatch> Session::next(bool& reached) noexcept {
  std::chrono::nanoseconds pause = k_first_pause;
  std::unique_lock lock(m_mutex);
  while (!ends()) {
    tidy();
    if (m_waiting.empty()) {
      const auto more = [this] { return !m_waiting.empty() || ends(); };
      if (m_leaving.empty()) {
        m_changed.wait(lock, more);
      } else if (!m_changed.wait_for(lock, pause, more)) {
        pause = std::min(2 * pause, k_calm_pause);
        continue;
      }
      pause = k_first_pause;
    }
    const auto now = Clock::now();
    for (auto it = m_waiting.begin(); it != m_waiting.end() && !ends(); ++it) {
      const Progress progress = m_device.look(**it);
      const bool late = now - std::max((*it)->begun, m_last_end) > m_settings.wait_limit;
      if (!progress.reached && !late && !progress.gives_back && m_listener.active()) continue;
      reached = progress.reached;
      std::unique_ptr<Dispatch> found = std::move(*it);
      m_waiting.erase(it);
      return found;
    }
    m_changed.wait_for(lock, pause);
    pause = std::min(2 * pause, k_longest_pause);
  }
  return nullptr;
}

void Session::carry_out(std::unique_ptr<Dispatch> dispatch, bool reached) noexcept {
  Result<void> taken = Error{ErrorCode::timeout, "work before the dispatch did not end in time"};
  if (!m_listener.active()) {
    taken = Error{ErrorCode::io, "the collector wants no more captures"};
  } else if (reached && !m_listener.listens()) {
    taken = Error{ErrorCode::stalled, k_stalled};
  } else if (reached && is_broken()) {
    taken = Error{ErrorCode::device, "an earlier capture left the copy queue hanging"};
  } else if (reached) {
    taken = take(*dispatch);
  }
  if (m_gone.load()) return;
  let_go(*dispatch);
  if (!taken) m_listener.failed(*dispatch, taken.error());
  const std::lock_guard lock(m_mutex);
  m_last_end = Clock::now();
  m_leaving.push_back(std::move(dispatch));
}

Result<void> Session::take(Dispatch& dispatch) noexcept {
  if (Result<void> held = m_course.hold(dispatch, stopped()); !held) return held;
  {
    const std::lock_guard lock(m_mutex);
    m_window.store(true, std::memory_order_seq_cst);
  }
  if (Result<void> taken = m_course.before(dispatch); !taken) return taken;
  if (Result<void> ran = run_kernel(dispatch); !ran) return ran;
  return m_course.after(dispatch);
}

Result<void> Session::run_kernel(Dispatch& dispatch) noexcept {
  m_device.go(dispatch);
  const auto until = Clock::now() + m_settings.wait_limit;
  std::chrono::nanoseconds pause = k_first_pause;
  while (!m_device.look(dispatch).ended) {
    if (Clock::now() > until) return Error{ErrorCode::timeout, "the kernel did not end in time"};
    if (!m_listener.connected()) return Error{ErrorCode::io, "the collector is gone"};
    std::unique_lock lock(m_mutex);
    m_changed.wait_for(lock, pause, [this] { return ends(); });
    if (ends()) return Error{ErrorCode::io, k_runtime_ends};
    pause = std::min(2 * pause, k_longest_pause);
  }
  return {};
}

std::vector<const Dispatch*> Session::stopped() noexcept {
  std::vector<const Dispatch*> found;
  const std::lock_guard lock(m_mutex);
  for (const std::unique_ptr<Dispatch>& other : m_waiting) {
    if (m_device.look(*other).reached) found.push_back(other.get());
  }
  return found;
}

// In whatever state the capture is. A dispatch that has not ended is waited for by tidy(): the captures behind it need
// not wait, too.
void Session::let_go(Dispatch& dispatch) noexcept {
  m_device.go(dispatch);
  complete_if_ended(dispatch, m_device.look(dispatch));
  m_device.release(dispatch);
  close_window();
  m_deferred.end_capture(dispatch.number);
}

void Session::complete_if_ended(Dispatch& dispatch, const Progress& progress) noexcept {
  if (!dispatch.owes_completion || !progress.ended) return;
  m_device.complete(dispatch);
  dispatch.owes_completion = false;
}

bool Session::tidy() noexcept {
  std::erase_if(m_leaving, [this](const std::unique_ptr<Dispatch>& dispatch) {
    const Progress progress = m_device.look(*dispatch);
    complete_if_ended(*dispatch, progress);
    // What the device has not taken of a queue when the program destroys it, it never takes.
    const bool over = (progress.left && !dispatch->owes_completion) || progress.destroyed;
    if (over) m_device.give_back(*dispatch);
    return over;
  });
  const bool others_rest = m_device.at_rest();
  return others_rest && m_leaving.empty();
}

void Session::close_window() noexcept {
  std::vector<Kept> kept;
  {
    const std::lock_guard lock(m_mutex);
    m_window.store(false, std::memory_order_seq_cst);
    m_windows_closed++;
    kept.swap(m_kept);
    m_changed.notify_all();
  }
  if (kept.empty()) return;
  for (const Kept& one : kept) one.free(one.memory);
  const std::lock_guard lock(m_mutex);
  m_given_back.fetch_add(kept.size(), std::memory_order_relaxed);
  m_changed.notify_all();
}

bool Session::keep_until_idle(void* memory, void (*free)(void*)) noexcept {
  if (!m_window.load(std::memory_order_seq_cst)) return false;
  const std::lock_guard lock(m_mutex);
  if (!m_window.load(std::memory_order_relaxed)) return false;
  m_kept.push_back({memory, free});
  ++m_kept_in_all;
  return true;
}

bool Session::wait_for_kept(std::uint64_t given_back_before) noexcept {
  if (ends()) return false;
  std::unique_lock lock(m_mutex);
  const auto is_back = [this, kept = m_kept_in_all] { return given_back() >= kept || m_gone.load(); };
  (void)wait_or_overtake(lock, is_back);
  return given_back() != given_back_before;
}

Session::Call Session::wait_until_idle() noexcept {
  if (!m_window.load(std::memory_order_seq_cst)) return {};
  std::unique_lock lock(m_mutex);
  if (!m_window.load(std::memory_order_relaxed)) return {};
  // For this window only: captures may follow each other so closely that no moment between them is seen.
  const auto is_closed = [this, closed = m_windows_closed] { return m_windows_closed != closed || m_gone.load(); };
  return wait_or_overtake(lock, is_closed);
}

Session::Call Session::wait_for_turn() noexcept {
  if (m_deferred.wait_for_turn(patience())) return {};
  Call call(m_course);
  (void)m_deferred.wait_for_turn(m_settings.wait_limit);
  return call;
}

void Session::settle(Limit limit) noexcept {
  if (m_gone.load()) return;
  const auto until = Clock::now() + limit;
  std::unique_lock lock(m_mutex);
  while (!tidy() && Clock::now() < until) m_changed.wait_for(lock, Limit(1));
}

void Session::begin_end() noexcept {
  if (m_gone.load()) return;
  const std::lock_guard lock(m_mutex);
  m_ends.store(true, std::memory_order_seq_cst);
  m_changed.notify_all();
}

bool Session::end(Limit limit) noexcept {
  if (m_gone.load()) return true;
  begin_end();
  std::deque<std::unique_ptr<Dispatch>> waiting;
  {
    std::unique_lock lock(m_mutex);
    if (!m_changed.wait_for(lock, limit, [this] { return !m_running; })) {
      m_gone.store(true, std::memory_order_seq_cst);
      m_changed.notify_all();
      return false;
    }
    waiting.swap(m_waiting);
  }
  for (std::unique_ptr<Dispatch>& dispatch : waiting) {
    let_go(*dispatch);
    const std::lock_guard lock(m_mutex);
    m_leaving.push_back(std::move(dispatch));
  }
  settle(k_settle_limit);
  m_gone.store(true, std::memory_order_seq_cst);
  return true;
}

void Session::abandon_in_child() noexcept {
  m_ends.store(true, std::memory_order_seq_cst);
  m_gone.store(true, std::memory_order_seq_cst);
  m_window.store(false, std::memory_order_seq_cst);
}

}  // namespace kerncap::capture
