// See the header for the order; each step is one function of the device's.
#include "capture/course.hpp"

namespace kerncap::capture {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

Error gone() { return {ErrorCode::io, "the collector is gone"}; }
Error overtaken() { return {ErrorCode::timeout, k_overtaken}; }

}  // namespace

Result<void> Course::hold(Dispatch& dispatch, const std::vector<const Dispatch*>& stopped) noexcept {
  dispatch.held_since = Clock::now();
  m_overtaken.store(false, std::memory_order_seq_cst);
  if (m_overtaking.load(std::memory_order_seq_cst) != 0) m_overtaken.store(true, std::memory_order_seq_cst);
  if (Result<void> held = m_device.hold(dispatch, stopped, m_settings.wait_limit); !held) return held;
  if (Result<void> drained = m_device.drain(dispatch, m_settings.wait_limit); !drained) return drained;
  dispatch.cost.drain_ns = ns_since(dispatch.held_since);
  return {};
}

Result<void> Course::before(Dispatch& dispatch) noexcept {
  if (Result<void> described = m_device.describe(dispatch, m_settings.wait_limit); !described) {
    m_broken = m_broken || described.error().code == ErrorCode::timeout;
    return described;
  }
  const auto since = Clock::now();
  if (Result<void> copied = copy(dispatch, State::pre); !copied) return copied;
  dispatch.cost.pre_copy_ns = ns_since(since);
  if (Result<void> fine = m_device.undisturbed(dispatch, State::pre); !fine) return fine;
  dispatch.cost.held_ns = ns_since(dispatch.held_since);
  // The kernel may end the program, or never end.
  if (!m_settings.with_post && !m_listener.ready(dispatch)) return gone();
  return {};
}

Result<void> Course::after(Dispatch& dispatch) noexcept {
  dispatch.cost.duration_ns = m_device.duration_ns(dispatch);
  if (!m_settings.with_post) return finish(dispatch);
  const auto since = Clock::now();
  if (Result<void> copied = copy(dispatch, State::post); !copied) return copied;
  dispatch.cost.post_copy_ns = ns_since(since);
  if (Result<void> fine = m_device.undisturbed(dispatch, State::post); !fine) return fine;
  return finish(dispatch);
}

Result<void> Course::finish(Dispatch& dispatch) noexcept {
  const Result<bool> sent = m_device.hand_over(dispatch);
  if (!sent) return sent.error();
  dispatch.cost.held_ns = ns_since(dispatch.held_since);
  if (sent.value() && !m_listener.done(dispatch)) return gone();
  return {};
}

Result<void> Course::copy(Dispatch& dispatch, State state) noexcept {
  if (is_overtaken()) return overtaken();
  const Result<std::uint64_t> copied = m_device.copy(dispatch, state, m_settings.wait_limit);
  if (!copied) m_broken = m_broken || copied.error().code == ErrorCode::timeout;
  if (is_overtaken()) return overtaken();
  if (!copied) return copied.error();
  dispatch.cost.copied_bytes = copied.value();
  return {};
}

}  // namespace kerncap::capture
