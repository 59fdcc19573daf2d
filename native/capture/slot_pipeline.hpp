// Device memory to the collector, through the slots of a channel: several copies are under way at a time, and each goes to
// the collector when it has ended, the oldest first. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "capture/channel.hpp"
#include "capture/device.hpp"
#include "capture/streams.hpp"

namespace kerncap::capture {

// How a back end copies into a slot.
class SlotCopier {
 public:
  // Begins to copy, in the order of the calls.
  virtual core::Result<void> begin(std::uint32_t slot, std::uint64_t from, std::size_t bytes) noexcept = 0;
  // Waits until the copy into the slot has ended. ErrorCode::device: it has, badly. With any other error it may still be
  // written to.
  virtual core::Result<void> wait(std::uint32_t slot, Limit limit) noexcept = 0;

 protected:
  ~SlotCopier() = default;
};

// `Conversation` is Channel, or a test's stub of it. It outlives this.
template <typename Conversation>
class BasicSlotPipeline {
 public:
  explicit BasicSlotPipeline(Conversation& channel) noexcept : m_channel(channel) {}

  // Begins to copy `bytes` at `from`, as a part of a stream: some of it may be under way when this returns. `look`, if any,
  // sees it before the collector does. Each wait is limited.
  core::Result<void> send(SlotCopier& copier, std::uint32_t stream, std::uint64_t from, std::uint64_t bytes, Limit limit,
                          const Look* look = nullptr) noexcept {
    for (std::uint64_t done = 0; done < bytes;) {
      const core::Result<std::uint32_t> slot = free_slot(limit);
      if (!slot) return slot.error();
      const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(m_channel.slot_bytes(), bytes - done));
      if (core::Result<void> begun = copier.begin(slot.value(), from + done, piece); !begun) {
        m_channel.release_unsent_slot(slot.value());
        return begun;
      }
      m_under_way.push_back({&copier, look, stream, slot.value(), piece, false});
      done += piece;
    }
    return {};
  }

  // The stream ends with what was last sent.
  void close(std::uint32_t stream) noexcept {
    if (!m_under_way.empty() && m_under_way.back().stream == stream) {
      m_under_way.back().is_last = true;
    } else {
      m_channel.send(messages::Close{.stream = stream});
    }
  }

  // Until nothing is under way. What is behind a copy that has failed is waited for and not sent; behind one that hangs,
  // all stays under way.
  core::Result<void> flush(Limit limit) noexcept {
    core::Result<void> result;
    while (!m_under_way.empty()) {
      const std::size_t before = m_under_way.size();
      core::Result<void> retired = retire_oldest(limit, result.ok());
      const bool hangs = m_under_way.size() == before;
      if (result) result = std::move(retired);
      if (hangs) break;
    }
    return result;
  }

  // False: slots may still be written to.
  [[nodiscard]] bool is_empty() const noexcept { return m_under_way.empty(); }

 private:
  struct UnderWay {
    SlotCopier* copier;
    const Look* look;
    std::uint32_t stream;
    std::uint32_t slot;
    std::size_t bytes;
    bool is_last;           // of its stream
  };

  core::Result<std::uint32_t> free_slot(Limit limit) noexcept {
    for (;;) {
      const bool waits_for_collector = m_under_way.empty();
      // One slot is always left to the collector: there is something to wait for.
      if (waits_for_collector || m_under_way.size() + 1 < m_channel.slot_count()) {
        if (const auto slot = m_channel.acquire_slot(Clock::now() + (waits_for_collector ? limit : Limit(0)))) return *slot;
      }
      if (waits_for_collector && !m_channel.connected()) return gone();
      if (waits_for_collector) return core::Error{core::ErrorCode::stalled, k_stalled};
      if (core::Result<void> retired = retire_oldest(limit); !retired) return retired.error();
    }
  }

  core::Result<void> retire_oldest(Limit limit, bool is_wanted = true) noexcept {
    const UnderWay oldest = m_under_way.front();
    core::Result<void> ended = oldest.copier->wait(oldest.slot, limit);
    if (!ended && ended.error().code != core::ErrorCode::device) return ended;
    m_under_way.pop_front();
    if (!ended || !is_wanted) {
      m_channel.release_unsent_slot(oldest.slot);
      return ended;
    }
    if (oldest.look != nullptr) (*oldest.look)(m_channel.slot(oldest.slot).first(oldest.bytes));
    const auto bytes = static_cast<std::uint32_t>(oldest.bytes);
    if (!m_channel.send(messages::Data{.stream = oldest.stream, .slot = oldest.slot, .size_bytes = bytes})) return gone();
    if (oldest.is_last) m_channel.send(messages::Close{.stream = oldest.stream});
    return {};
  }

  static core::Error gone() { return {core::ErrorCode::io, "the collector is gone"}; }

  Conversation& m_channel;
  std::deque<UnderWay> m_under_way;
};

using SlotPipeline = BasicSlotPipeline<Channel>;

}  // namespace kerncap::capture
