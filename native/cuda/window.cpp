// While a dispatch is captured other threads' calls wait: all driver calls are shown to us then. Those that submit or give up something
// do so between two callbacks, and are counted all the time.
#include "cuda/window.hpp"

#include <algorithm>
#include <string>
#include <thread>

#include "cuda/callbacks.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds k_launch_limit{1};

constexpr const char* k_did_not_end =
    "another thread's call that ends a stream, a context or a module, or begins to record a graph, did not end in time";

}  // namespace

// Those who waited for the window before this one to close come first: else captures one behind the other hold them for ever.
void Window::wait_for_turn() noexcept {
  step_out();   // who holds the window now, or is before us, does not wait for this call
  m_turn.lock();
  constexpr std::chrono::milliseconds k_limit{10};   // they may be waiting for a processor
  {
    std::unique_lock lock(m_mutex);
    m_changed.wait_for(lock, k_limit, [this] { return m_waiters == 0; });
  }
  this_thread().holds_window = true;
}

void Window::open() noexcept {
  m_passed.store(false);
  m_was_late.store(false);
  m_own.window.store(true, std::memory_order_seq_cst);
  watch_everything();
}

void Window::close() noexcept {
  m_is_settled.store(false);
  watch_what_matters();
  m_own.window.store(false, std::memory_order_seq_cst);
  this_thread().holds_window = false;
  {
    const std::lock_guard lock(m_mutex);
    m_changed.notify_all();
  }
  m_turn.unlock();
}

Result<void> Window::settle(std::uint32_t device) noexcept {
  const auto deadline = wait_deadline();
  // A call that was past its callback when the window opened is counted, or changes nothing that is captured: see calls_under_way.cpp.
  constexpr std::chrono::microseconds k_look_every{30};
  while (m_own.ending.load(std::memory_order_seq_cst) != 0) {
    if (Clock::now() > deadline) return Error{ErrorCode::timeout, k_did_not_end};
    std::this_thread::sleep_for(k_look_every);
  }
  if (Result<void> drained = tool()->streams.drain(device, deadline); !drained) return drained;
  // A launch that does not return though this device is at rest loads its kernel, or waits for another device, whose queue is full, and
  // maybe for what is captured.
  const bool may_be_stuck = tool()->streams.has_others(device);
  const auto launched = std::min(deadline, Clock::now() + k_launch_limit);
  for (;;) {
    const bool is_copying = m_own.copying.load(std::memory_order_seq_cst) != 0;
    const bool is_launching = m_own.launching.load(std::memory_order_seq_cst) != 0;
    m_has_stuck = is_launching && may_be_stuck && Clock::now() >= launched;
    if (!is_copying && (!is_launching || m_has_stuck)) break;
    if (Clock::now() > deadline) {
      return Error{ErrorCode::timeout, is_copying ? "a copy from or to the host did not end in time" : "another thread's launch did not end in time"};
    }
    std::this_thread::sleep_for(k_look_every);
  }
  m_device.store(device);
  m_is_settled.store(true);   // before the device is drained once more: of what is submitted then, one of both tells
  return tool()->streams.drain(device, deadline);
}

bool Window::stand_aside() noexcept {
  if (!m_own.window.load(std::memory_order_seq_cst) || this_thread().holds_window) return true;
  if (m_passed.load()) return false;   // the capture has failed, and holds nobody again
  const Inside inside;
  std::unique_lock lock(m_mutex);
  ++m_waiters;
  const auto k_is_closed = [this] { return !m_own.window.load(); };
  bool is_closed = m_changed.wait_for(lock, waits_at_most(), k_is_closed);
  if (!is_closed && m_is_undoing) {
    // All waits that come before it has been undone are bounded.
    m_changed.wait(lock, [this] { return !m_is_undoing || !m_own.window.load(); });
    is_closed = k_is_closed();
  }
  if (!is_closed && !m_passed.exchange(true)) m_passed_at = Clock::now();
  if (--m_waiters == 0) m_changed.notify_all();
  return is_closed;
}

// What a call takes away that waits no longer may be under our copies. No more is begun: they end soon, and the window closes.
void Window::let_copies_end() noexcept {
  const Inside inside;
  std::unique_lock lock(m_mutex);
  m_changed.wait_until(lock, m_passed_at + tool()->channel->wait_limit(), [this] { return !m_own.window.load(); });
}

std::chrono::milliseconds Window::waits_at_most() noexcept { return 4 * tool()->channel->wait_limit(); }

Result<void> Window::begin_undoing() noexcept {
  const std::lock_guard lock(m_mutex);
  m_is_undoing = !m_passed.load();
  return was_undisturbed();
}

void Window::end_undoing() noexcept {
  const std::lock_guard lock(m_mutex);
  m_is_undoing = false;
  m_changed.notify_all();
}

Result<void> Window::was_undisturbed() const noexcept {
  if (m_passed.load()) {
    return Error{ErrorCode::timeout, "other threads of the program were held for " + std::to_string(waits_at_most().count() / 1000) +
                                         " s, the most they may be, and went on before its state had been taken"};
  }
  if (m_was_late.load()) {
    return Error{ErrorCode::timeout, "a launch of another thread's, which had begun before, went on while the state was taken"};
  }
  return {};
}

void Window::step_in(std::atomic<std::uint32_t>& kind) noexcept {
  kind.fetch_add(1, std::memory_order_seq_cst);
  this_thread().under_way = &kind;
}

void Window::end_call(CUcontext context) noexcept {
  const ThisThread& thread = this_thread();
  if (thread.under_way == &m_own.launching && m_is_settled.load() && !thread.holds_window) {
    // It was not waited for, and may have submitted its work only now: on another GPU, that matters where it can write to this one.
    const std::uint32_t captured = m_device.load();
    const std::uint32_t device = tool()->streams.device_of(context).value_or(captured);
    if (device == captured || tool()->allocations.reaches(device, captured)) m_was_late.store(true);
  }
  step_out();
}

// Nothing where this thread is not counted: its call is the one that is captured.
void Window::step_out() noexcept {
  ThisThread& thread = this_thread();
  if (thread.under_way == nullptr) return;
  thread.under_way->fetch_sub(1, std::memory_order_seq_cst);
  thread.under_way = nullptr;
}

void Window::begin_call(UnderWay what) noexcept {
  switch (what) {
    case UnderWay::nothing: stand_aside(); return;
    case UnderWay::copy: return begin_counted(m_own.copying);
    case UnderWay::submission:
    case UnderWay::launch:
    case UnderWay::graph_launch: return begin_counted(m_own.launching);
    case UnderWay::stream_end:
    case UnderWay::code_end:
    case UnderWay::memory_end:
    case UnderWay::rights:
    case UnderWay::recording: return begin_counted(m_own.ending);
    case UnderWay::context_end: return begin_end_of_context();
  }
}

// Either the window sees the call, or the call sees the window.
void Window::begin_counted(std::atomic<std::uint32_t>& kind) noexcept {
  do {
    step_out();   // of the round before, or of a call whose end was not shown to us
    if (!stand_aside() && &kind == &m_own.ending) let_copies_end();
    step_in(kind);   // also where it waited in vain: the next window is not to open beside it
    // Once threads have waited in vain (m_passed), they go on in this window, and the next one waits for them, as they are counted.
  } while (m_own.window.load(std::memory_order_seq_cst) && !this_thread().holds_window && !m_passed.load());
}

void Window::begin_end_of_context() noexcept {
  for (;;) {
    m_sender.finish();   // not while it is counted: that may take long, and would hold all who wait for a window of another context's
    begin_counted(m_own.ending);
    if (!m_sender.is_sending()) return;
    step_out();
  }
}

}  // namespace kerncap::cuda
