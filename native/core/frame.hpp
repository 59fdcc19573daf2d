// Objects on disk: one zstd frame of a payload, with its content size. docs/store.md is the specification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/result.hpp"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace kerncap::core {

// Writes frames to a file descriptor. One per thread: it owns the compressor's memory.
class FrameWriter {
 public:
  FrameWriter();

  // Writes `payload` as one frame: compressed where a probe finds at least 5 % to gain, as raw blocks otherwise.
  // Returns the size of the frame in bytes.
  [[nodiscard]] Result<std::size_t> write(int fd, std::span<const std::byte> payload);

  // The same for a payload in pieces whose whole size is known; nothing is probed.
  [[nodiscard]] Result<void> begin(std::uint64_t content_bytes);
  [[nodiscard]] Result<std::size_t> append(int fd, std::span<const std::byte> piece, bool last);

 private:
  [[nodiscard]] bool compressible(std::span<const std::byte> payload);

  struct Free {
    void operator()(ZSTD_CCtx_s* context) const noexcept;
  };
  std::unique_ptr<ZSTD_CCtx_s, Free> m_context;
  std::vector<std::byte> m_buffer;
};

// The size that a frame declares; an error for anything that is not one whole frame with a size.
[[nodiscard]] Result<std::uint64_t> declared_size(std::span<const std::byte> frame);

// The size of a frame of raw blocks, as FrameWriter writes it.
[[nodiscard]] std::size_t raw_frame_bytes(std::size_t payload_bytes) noexcept;

// Reads such a frame from its beginning straight into `payload`: nothing is copied twice. False if the file holds
// anything else; `payload` is undefined then.
[[nodiscard]] Result<bool> read_raw_frame(int fd, std::span<std::byte> payload);

// Reads frames. One per thread.
class FrameReader {
 public:
  FrameReader();

  // Decompresses exactly `payload.size()` bytes: more or fewer in the frame, or bytes behind it, are damage.
  [[nodiscard]] Result<void> read(std::span<const std::byte> frame, std::span<std::byte> payload);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> m_context;
};

}  // namespace kerncap::core
