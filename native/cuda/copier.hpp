// Moves state: on the device, and from there through pinned slots to the collector. One thread at a time. Each wait has a limit.
// After one that ended without success the copier hangs: it queues nothing and waits for nothing until the device has gone on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/slot_pipeline.hpp"
#include "core/result.hpp"
#include "cuda/allocations.hpp"
#include "cuda/cuda_headers.hpp"
#include "cuda/own_memory.hpp"
#include "cuda/polling.hpp"

namespace kerncap::cuda {

inline constexpr std::uint64_t k_copy_align = 256;

class Copier final : private capture::SlotCopier {
 public:
  // Copies lie in `memory`, which outlives this and which several may share.
  explicit Copier(OwnMemory& memory) noexcept;
  // Makes the stream and the events, in the current context.
  core::Result<void> prepare() noexcept;
  // Memory of ours on the device; 0 when there is not enough that is free.
  [[nodiscard]] CUdeviceptr allocate(std::uint64_t bytes) noexcept;
  // Memory that a copy of this copier may still use when the wait ends is not given back.
  void free(CUdeviceptr memory) noexcept;
  // Where regions lie in a copy of all of them, each at a multiple of k_copy_align; the last is the copy's size.
  [[nodiscard]] static std::vector<std::uint64_t> layout(const std::vector<Allocation>& regions);
  // Copies all regions to `to`, laid out so, and waits.
  core::Result<void> gather(const std::vector<Allocation>& regions, CUdeviceptr to, Deadline deadline) noexcept;
  // The way back; what the device may only read is left alone.
  core::Result<void> scatter(const std::vector<Allocation>& regions, CUdeviceptr from,
                             const std::vector<bool>& wanted, Deadline deadline) noexcept;
  // Waits for all that was queued on the stream. `what`: for the message.
  core::Result<void> finish(const std::string& what, Deadline deadline) noexcept;
  [[nodiscard]] CUstream stream() const noexcept { return m_stream; }
  // Pins the slots if that pays for so many bytes, of all that will be sent. Before the first are: it takes a while.
  core::Result<void> pin_for(std::uint64_t bytes) noexcept;
  // A part of a stream: bytes at `from`, or the same bytes as the pre-state has.
  struct Piece {
    CUdeviceptr from;                        // 0: the same
    std::uint64_t bytes;
  };
  // Sends one stream. Returns when all is with the collector, or, where `goes_on` turns false, when what has been begun has ended.
  core::Result<void> send(capture::StreamKind kind, std::uint64_t capture, std::uint64_t index,
                          const std::vector<Piece>& pieces, const capture::GoesOn& goes_on = {}) noexcept;

 private:
  core::Result<void> begin(std::uint32_t slot, std::uint64_t from, std::size_t bytes) noexcept override;
  core::Result<void> wait(std::uint32_t slot, capture::Limit limit) noexcept override;
  core::Result<void> may_queue() noexcept;
  template <typename Handle>
  [[nodiscard]] CUresult wait_for(Handle what, Deadline deadline) noexcept;

  OwnMemory& m_memory;
  CUstream m_stream = nullptr;
  std::vector<CUevent> m_events;             // by slot
  capture::SlotPipeline m_pipeline;
  bool m_ready = false;
  bool m_pinned = false;
  bool m_hangs = false;                      // the last wait was in vain
  const capture::GoesOn* m_goes_on = nullptr;   // of the stream that is being sent
};

}  // namespace kerncap::cuda
