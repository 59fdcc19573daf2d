// One stream of our own, which waits for nobody's.
#include "cuda/copier.hpp"

#include <algorithm>

#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

// Left to the program: its own allocations go on while a snapshot lies on the device.
constexpr std::uint64_t k_spare_bytes = 512ull << 20;
// Less than this is sent through slots that are not pinned: at a third of the rate, but pinning them all takes longer.
constexpr std::uint64_t k_worth_pinning_bytes = 64ull << 20;

// What is smaller shares a block with the program's memory; and a block lies before and behind each copy, or a kernel that
// writes beyond its memory would change what was kept of it.
constexpr std::uint64_t k_block_bytes = 2ull << 20;

// The result of a copy into a slot. ErrorCode::device: it has ended. With any other code the slot may still be written to.
Result<void> copied_to_host(CUresult status) noexcept {
  if (status == CUDA_SUCCESS) return {};
  return Error{ErrorCode::device, describe("copying to the host", status)};
}

Error did_not_end(const std::string& what) { return {ErrorCode::timeout, what + " did not end in time"}; }

}  // namespace

Copier::Copier(OwnMemory& memory) noexcept : m_memory(memory), m_pipeline(*tool()->channel) {}

Result<void> Copier::prepare() noexcept {
  if (m_ready) return {};
  capture::Channel& channel = *tool()->channel;
  Result<void> made = checked("creating a stream", driver().cuStreamCreate(&m_stream, CU_STREAM_NON_BLOCKING));
  if (!made) return made;
  m_events.resize(channel.slot_count());
  for (CUevent& event : m_events) {
    made = checked("creating an event", driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (!made) return made;
  }
  m_ready = true;
  return {};
}

// Not before it is needed: pinning takes as long as copying a hundred times as much on the device.
Result<void> Copier::pin_for(std::uint64_t bytes) noexcept {
  if (m_pinned || bytes <= k_worth_pinning_bytes) return {};
  const auto slots = tool()->channel->slots();
  const CUresult pinned = driver().cuMemHostRegister_v2(slots.data(), slots.size(), CU_MEMHOSTREGISTER_PORTABLE);
  m_pinned = pinned == CUDA_SUCCESS || pinned == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  return m_pinned ? Result<void>() : checked("pinning the slots", pinned);
}

std::vector<std::uint64_t> Copier::layout(const std::vector<Allocation>& regions) {
  std::vector<std::uint64_t> offsets{0};
  for (const Allocation& region : regions) {
    offsets.push_back((offsets.back() + region.bytes + k_copy_align - 1) & ~(k_copy_align - 1));
  }
  return offsets;
}

CUdeviceptr Copier::allocate(std::uint64_t bytes) noexcept {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  if (driver().cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS || free_bytes < bytes + k_spare_bytes) return 0;
  const std::uint64_t whole = (bytes + k_block_bytes - 1) & ~(k_block_bytes - 1);
  const CUdeviceptr memory = m_memory.allocate(whole + 2 * k_block_bytes);
  return memory == 0 ? 0 : memory + k_block_bytes;
}

void Copier::free(CUdeviceptr memory) noexcept {
  if (memory == 0) return;
  if (m_ready && wait_for(m_stream, wait_deadline()) == CUDA_ERROR_NOT_READY) {
    return warn("device memory that held a snapshot is not given back to the program: a copy that did not end in time may still use it");
  }
  const CUresult freed = m_memory.free(memory - k_block_bytes);
  if (freed == CUDA_SUCCESS) return;
  // A context that a kernel has broken takes all of its memory with it.
  const CUresult status = driver().cuStreamQuery(m_stream);
  if (status != CUDA_SUCCESS && status != CUDA_ERROR_NOT_READY) return;
  warn(describe("device memory that held a snapshot could not be given back to the program", freed));
}

template <typename Handle>
CUresult Copier::wait_for(Handle what, Deadline deadline) noexcept {
  const CUresult status = poll(what, m_hangs ? Deadline::min() : deadline);
  m_hangs = status == CUDA_ERROR_NOT_READY;
  return status;
}

Result<void> Copier::finish(const std::string& what, Deadline deadline) noexcept {
  const CUresult status = wait_for(m_stream, deadline);
  return status == CUDA_ERROR_NOT_READY ? did_not_end(what) : checked(what, status);
}

// What is queued behind a copy that hangs might write to the program's memory at any later time.
Result<void> Copier::may_queue() noexcept {
  if (!m_hangs || wait_for(m_stream, Deadline::min()) != CUDA_ERROR_NOT_READY) return {};
  return did_not_end("a copy of an earlier capture");
}

Result<void> Copier::gather(const std::vector<Allocation>& regions, CUdeviceptr to, Deadline deadline) noexcept {
  if (Result<void> may = may_queue(); !may) return may;
  const std::vector<std::uint64_t> offsets = layout(regions);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const CUresult status = driver().cuMemcpyAsync(to + offsets[i], regions[i].base, regions[i].bytes, m_stream);
    if (status != CUDA_SUCCESS) return Error{ErrorCode::device, describe("copying a region", status)};
  }
  return finish("copying memory", deadline);
}

Result<void> Copier::scatter(const std::vector<Allocation>& regions, CUdeviceptr from,
                             const std::vector<bool>& wanted, Deadline deadline) noexcept {
  if (Result<void> may = may_queue(); !may) return may;
  const std::vector<std::uint64_t> offsets = layout(regions);
  Result<void> done;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (!wanted[i] || (regions[i].flags & capture::k_region_read_only) != 0) continue;
    const CUresult status = driver().cuMemcpyAsync(regions[i].base, from + offsets[i], regions[i].bytes, m_stream);
    // The others are put back all the same.
    if (status != CUDA_SUCCESS && done) done = Error{ErrorCode::device, describe("putting a region back", status)};
  }
  const Result<void> finished = finish("putting memory back", deadline);
  return finished ? done : finished;
}

Result<void> Copier::begin(std::uint32_t slot, std::uint64_t from, std::size_t bytes) noexcept {
  if (Result<void> may = may_queue(); !may) return may;
  if (m_goes_on != nullptr && *m_goes_on && !(*m_goes_on)()) return Error{ErrorCode::device, capture::k_overtaken};
  CUresult status = driver().cuMemcpyDtoHAsync_v2(tool()->channel->slot(slot).data(), from, bytes, m_stream);
  if (status == CUDA_SUCCESS) status = driver().cuEventRecord(m_events[slot], m_stream);
  return copied_to_host(status);
}

Result<void> Copier::wait(std::uint32_t slot, capture::Limit limit) noexcept {
  const CUresult status = wait_for(m_events[slot], capture::Clock::now() + limit);
  return status == CUDA_ERROR_NOT_READY ? did_not_end("copying to the host") : copied_to_host(status);
}

Result<void> Copier::send(capture::StreamKind kind, std::uint64_t capture, std::uint64_t index,
                          const std::vector<Piece>& pieces, const capture::GoesOn& goes_on) noexcept {
  capture::Channel& channel = *tool()->channel;
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  const std::uint32_t stream = capture::open_stream(channel, kind, capture, index, bytes);
  const capture::Limit limit = channel.wait_limit();
  Result<void> result;
  m_goes_on = &goes_on;
  for (const Piece& piece : pieces) {
    if (!result) break;
    if (piece.from != 0) {
      result = m_pipeline.send(*this, stream, piece.from, piece.bytes, limit);
      continue;
    }
    result = m_pipeline.flush(limit);  // messages of a stream are in order of offset
    if (result && !channel.send(capture::messages::Same{.stream = stream, .size_bytes = piece.bytes})) {
      result = Error{ErrorCode::io, "the collector is gone"};
    }
  }
  m_goes_on = nullptr;
  const Result<void> flushed = m_pipeline.flush(limit);
  if (result) result = flushed;
  if (result) m_pipeline.close(stream);
  return result;
}

}  // namespace kerncap::cuda
