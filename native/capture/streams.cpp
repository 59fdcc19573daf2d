// Host memory to the collector, slot by slot.
#include "capture/streams.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "capture/device.hpp"
#include "capture/own_memory.hpp"

namespace kerncap::capture {
namespace {

using core::Error;
using core::ErrorCode;

std::atomic<std::uint32_t> g_next_stream{1};

template <typename Read>
core::Result<void> send_pieces(Channel& channel, std::uint32_t stream, std::uint64_t bytes, const Look& look,
                               const GoesOn& goes_on, Read read) noexcept {
  for (std::uint64_t done = 0; done < bytes;) {
    const auto deadline = std::chrono::steady_clock::now() + channel.wait_limit();
    const auto slot = channel.acquire_slot(deadline);
    if (!slot) return Error{ErrorCode::stalled, k_stalled};
    const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(channel.slot_bytes(), bytes - done));
    if (goes_on && !goes_on()) {
      channel.release_unsent_slot(*slot);
      return Error{ErrorCode::device, k_overtaken};
    }
    if (!read(channel.slot(*slot).first(piece), done)) {
      // The program has given up the whole region: as if it had done so before the capture.
      channel.release_unsent_slot(*slot);
      if (!channel.send(messages::Vanished{.stream = stream})) return Error{ErrorCode::io, "the collector is gone"};
      return {};
    }
    if (look) look(channel.slot(*slot).first(piece));
    if (!send_slot(channel, stream, *slot, piece)) return Error{ErrorCode::io, "the collector is gone"};
    done += piece;
  }
  close_stream(channel, stream);
  return {};
}

}  // namespace

std::uint32_t open_stream(Channel& channel, StreamKind kind, std::uint64_t capture, std::uint64_t index,
                          std::uint64_t bytes) noexcept {
  const std::uint32_t stream = g_next_stream.fetch_add(1, std::memory_order_relaxed);
  channel.send(messages::Open{.stream = stream, .kind = kind, .capture = capture, .index = index, .size_bytes = bytes});
  return stream;
}

bool send_slot(Channel& channel, std::uint32_t stream, std::uint32_t slot, std::size_t bytes) noexcept {
  return channel.send(messages::Data{.stream = stream, .slot = slot, .size_bytes = static_cast<std::uint32_t>(bytes)});
}

void close_stream(Channel& channel, std::uint32_t stream) noexcept { channel.send(messages::Close{.stream = stream}); }

core::Result<void> send_unchanged(Channel& channel, std::uint64_t capture, std::uint64_t index,
                                  std::uint64_t bytes) noexcept {
  const std::uint32_t stream = open_stream(channel, StreamKind::post, capture, index, bytes);
  if (!channel.send(messages::Same{.stream = stream, .size_bytes = bytes})) return Error{ErrorCode::io, "the collector is gone"};
  close_stream(channel, stream);
  return {};
}

core::Result<void> send_stream(Channel& channel, StreamKind kind, std::uint64_t capture, std::uint64_t index,
                               std::span<const std::byte> bytes, const Look& look, const GoesOn& goes_on) noexcept {
  const std::uint32_t stream = open_stream(channel, kind, capture, index, bytes.size());
  return send_pieces(channel, stream, bytes.size(), look, goes_on, [bytes](std::span<std::byte> slot, std::uint64_t at) {
    std::memcpy(slot.data(), &bytes[at], slot.size());
    return true;
  });
}

core::Result<void> send_unsafe_range(Channel& channel, StreamKind kind, std::uint64_t capture,
                                     std::uint64_t index, std::uint64_t address, std::uint64_t bytes,
                                     const Look& look, const GoesOn& goes_on) noexcept {
  const std::uint32_t stream = open_stream(channel, kind, capture, index, bytes);
  return send_pieces(channel, stream, bytes, look, goes_on, [address](std::span<std::byte> slot, std::uint64_t at) {
    return read_own_memory(address + at, slot);
  });
}

}  // namespace kerncap::capture
