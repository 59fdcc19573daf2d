// Moves state: on the device, and from there through pinned slots to the collector. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "capture/protocol.hpp"
#include "core/result.hpp"
#include "cuda/allocations.hpp"
#include "cuda/cuda_headers.hpp"
#include "cuda/own_memory.hpp"

namespace kerncap::cuda {

inline constexpr std::uint64_t k_copy_align = 256;

class Copier {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Copies lie in `memory`, which outlives this and which several may share.
  explicit Copier(OwnMemory& memory) noexcept : m_memory(memory) {}
  // Makes the stream and the events, in the current context.
  core::Result<void> prepare() noexcept;
  // Memory of ours on the device; 0 when there is not enough that is free.
  [[nodiscard]] CUdeviceptr allocate(std::uint64_t bytes) noexcept;
  void free(CUdeviceptr memory) noexcept;
  // Where regions lie in a copy of all of them, each at a multiple of k_copy_align; the last is the copy's size.
  [[nodiscard]] static std::vector<std::uint64_t> layout(const std::vector<Allocation>& regions);
  // Copies all regions to `to`, laid out so, and waits.
  core::Result<void> gather(const std::vector<Allocation>& regions, CUdeviceptr to, Deadline deadline) noexcept;
  // The way back; what the device may only read is left alone.
  core::Result<void> scatter(const std::vector<Allocation>& regions, CUdeviceptr from,
                             const std::vector<bool>& wanted) noexcept;
  [[nodiscard]] CUstream stream() const noexcept { return m_stream; }
  // Pins the slots if that pays for so many bytes, of all that will be sent. Before the first are: it takes a while.
  core::Result<void> pin_for(std::uint64_t bytes) noexcept;
  // A part of a stream: bytes at `from`, or the same bytes as the pre-state has.
  struct Piece {
    CUdeviceptr from;                        // 0: the same
    std::uint64_t bytes;
  };
  // Sends one stream. Returns when all is with the collector.
  core::Result<void> send(capture::StreamKind kind, std::uint64_t capture, std::uint64_t index,
                          const std::vector<Piece>& pieces) noexcept;

 private:
  struct InFlight {
    std::uint32_t slot;
    std::size_t bytes;
    CUevent done;
  };
  core::Result<void> send_bytes(std::uint32_t stream, CUdeviceptr from, std::uint64_t bytes) noexcept;
  core::Result<void> retire(std::uint32_t stream) noexcept;
  core::Result<void> retire_all(std::uint32_t stream) noexcept;
  core::Result<void> wait(Deadline deadline) noexcept;

  OwnMemory& m_memory;
  CUstream m_stream = nullptr;
  std::vector<CUevent> m_events;             // by slot
  std::deque<InFlight> m_in_flight;
  bool m_ready = false;
  bool m_pinned = false;
};

}  // namespace kerncap::cuda
