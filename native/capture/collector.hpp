// What becomes of captures, said through a channel.
#pragma once

#include "capture/channel.hpp"
#include "capture/device.hpp"

namespace kerncap::capture {

[[nodiscard]] inline FailureCode failure_of(core::ErrorCode code) noexcept {
  if (code == core::ErrorCode::timeout || code == core::ErrorCode::stalled) return FailureCode::timeout;
  if (code == core::ErrorCode::unsupported) return FailureCode::unsupported_memory;
  return FailureCode::device;
}

class Collector final : public Listener {
 public:
  explicit Collector(Channel& channel) noexcept : m_channel(channel) {}

  bool active() const noexcept override { return m_channel.active(); }
  bool connected() const noexcept override { return m_channel.connected(); }
  bool listens() const noexcept override { return !m_channel.is_silent(); }
  bool ready(const Dispatch& dispatch) noexcept override {
    return m_channel.send(messages::Ready{.capture = dispatch.number, .cost = dispatch.cost});
  }
  bool done(const Dispatch& dispatch) noexcept override {
    return m_channel.send(messages::Done{.capture = dispatch.number, .cost = dispatch.cost});
  }
  void failed(const Dispatch& dispatch, const core::Error& why) noexcept override {
    m_channel.send(messages::Failed{.capture = dispatch.number, .code = failure_of(why.code), .reason = why.message});
  }

 private:
  Channel& m_channel;
};

}  // namespace kerncap::capture
