// Sends bytes of this process to the collector through the shared slots of a channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "capture/channel.hpp"
#include "core/result.hpp"

namespace kerncap::capture {

// Gets the bytes of a stream, piece by piece and in order, before the collector does.
using Look = std::function<void(std::span<const std::byte>)>;
// Asked before each piece is read. False: the stream ends with k_overtaken.
using GoesOn = std::function<bool()>;

// Names of streams are unique in the process.
[[nodiscard]] std::uint32_t open_stream(Channel& channel, StreamKind kind, std::uint64_t capture,
                                        std::uint64_t index, std::uint64_t bytes) noexcept;
// The collector owns the slot after this.
bool send_slot(Channel& channel, std::uint32_t stream, std::uint32_t slot, std::size_t bytes) noexcept;
void close_stream(Channel& channel, std::uint32_t stream) noexcept;
// A region is after the kernel what it was before; its pre-state was sent.
[[nodiscard]] core::Result<void> send_unchanged(Channel& channel, std::uint64_t capture, std::uint64_t index,
                                                std::uint64_t bytes) noexcept;

// `bytes` must stay readable for the whole call.
core::Result<void> send_stream(Channel& channel, StreamKind kind, std::uint64_t capture, std::uint64_t index,
                               std::span<const std::byte> bytes, const Look& look = {},
                               const GoesOn& goes_on = {}) noexcept;

// The same for memory that another thread may unmap at any time: that ends in an error, not in a fault.
core::Result<void> send_unsafe_range(Channel& channel, StreamKind kind, std::uint64_t capture,
                                     std::uint64_t index, std::uint64_t address, std::uint64_t bytes,
                                     const Look& look = {}, const GoesOn& goes_on = {}) noexcept;

}  // namespace kerncap::capture
