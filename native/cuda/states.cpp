// What the kernel did not change is not sent.
#include "cuda/states.hpp"

#include <algorithm>

#include "capture/streams.hpp"
#include "core/chunk_list.hpp"
#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using capture::StreamKind;
using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::uint64_t k_chunk = core::k_chunk_bytes;
// States up to this size go to the collector while the program waits, a few milliseconds: whatever the program does next,
// end itself without handlers for one, nothing of the capture is lost.
constexpr std::uint64_t k_small_bytes = 64ull << 20;
constexpr std::size_t k_few_regions = 200;   // more of them take as long as many bytes: a millisecond each

std::uint64_t chunks_of(const Allocation& region) noexcept { return (region.bytes + k_chunk - 1) / k_chunk; }

std::uint64_t chunk_bytes(const Allocation& region, std::uint64_t chunk) noexcept {
  return std::min(k_chunk, region.bytes - chunk * k_chunk);
}

// Constants are not our kernel's to read: such regions count as changed.
bool is_comparable(const Allocation& region) noexcept {
  return region.kind != capture::MemoryKind::code_object && Changed::can_compare(region.base);
}

Result<void> send_pre(Copier& copier, const Job& job) noexcept {
  if (Result<void> pinned = copier.pin_for(job.cost.copied_bytes); !pinned) return pinned;
  const std::vector<std::uint64_t> offsets = Copier::layout(job.regions);
  for (std::size_t i = 0; i < job.regions.size(); ++i) {
    const std::vector<Copier::Piece> whole{{job.pre + offsets[i], job.regions[i].bytes}};
    if (Result<void> sent = copier.send(StreamKind::pre, job.number, i, whole); !sent) return sent;
  }
  return {};
}

Result<void> compare_states(Job& job) noexcept {
  Changed& kernel = job.engines->changed;
  const CUstream stream = job.engines->copier.stream();
  std::uint64_t chunks = 0;
  for (const Allocation& region : job.regions) chunks += chunks_of(region);
  // Where the driver cannot compile it, everything counts as changed: the collector finds out.
  if (!kernel.prepare()) {
    job.changed.assign(std::max<std::uint64_t>(chunks, 1), 1);
    return {};
  }
  Result<void> done = kernel.begin(std::max<std::uint64_t>(chunks, 1), stream);
  const std::vector<std::uint64_t> offsets = Copier::layout(job.regions);
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < job.regions.size() && done; ++i) {
    const Allocation& region = job.regions[i];
    if (is_comparable(region)) {
      done = kernel.compare(job.pre + offsets[i], region.base, region.bytes, k_chunk, first, stream);
    }
    first += chunks_of(region);
  }
  if (done) done = job.engines->copier.finish("comparing memory", wait_deadline());
  if (!done) return done;
  Result<std::vector<std::uint32_t>> words = kernel.fetch();
  if (!words) return words.error();
  job.changed = std::move(words.value());
  std::size_t word = 0;
  for (const Allocation& region : job.regions) {
    const std::size_t end = word + chunks_of(region);
    if (!is_comparable(region)) std::fill(&job.changed[word], job.changed.data() + end, 1);
    word = end;
  }
  return {};
}

// Straight from the program's memory: what has failed is not sent to its end, which may take minutes, and what another thread gives
// up is read no longer.
Result<void> send_undisturbed(Copier& copier, StreamKind kind, const Job& job, std::size_t index,
                              const std::vector<Copier::Piece>& pieces, const Window& window) noexcept {
  const Result<void> sent =
      copier.send(kind, job.number, index, pieces, [&window] { return window.was_undisturbed().ok(); });
  const Result<void> fine = window.was_undisturbed();
  return fine ? sent : fine;
}

// Runs of chunks: those that changed as bytes, the others as "the same". `window`: the former are read from the program's memory, as
// there was no room for a copy.
Result<void> send_post(Copier& copier, const Job& job, const Window* window) noexcept {
  std::uint64_t kept = 0;                      // where the next run lies in job.post
  std::size_t word = 0;
  for (std::size_t i = 0; i < job.regions.size(); ++i) {
    const Allocation& region = job.regions[i];
    std::vector<Copier::Piece> pieces;
    for (std::uint64_t chunk = 0; chunk < chunks_of(region);) {
      const bool changed = job.changed[word] != 0;
      const std::uint64_t begin = chunk * k_chunk;
      std::uint64_t bytes = 0;
      while (chunk < chunks_of(region) && (job.changed[word] != 0) == changed) {
        bytes += chunk_bytes(region, chunk);
        ++chunk;
        ++word;
      }
      if (!changed) {
        pieces.push_back({0, bytes});
        continue;
      }
      pieces.push_back({window != nullptr ? region.base + begin : job.post + kept, bytes});
      kept += (bytes + k_copy_align - 1) & ~(k_copy_align - 1);
    }
    Result<void> sent = window != nullptr ? send_undisturbed(copier, StreamKind::post, job, i, pieces, *window)
                                          : copier.send(StreamKind::post, job.number, i, pieces);
    if (!sent) return sent;
  }
  return {};
}

}  // namespace

Result<void> send_live(const Job& job, StreamKind kind, const Window& window) noexcept {
  Copier& copier = job.engines->copier;
  if (Result<void> pinned = copier.pin_for(job.cost.copied_bytes); !pinned) return pinned;
  for (std::size_t i = 0; i < job.regions.size(); ++i) {
    const std::vector<Copier::Piece> whole{{job.regions[i].base, job.regions[i].bytes}};
    if (Result<void> sent = send_undisturbed(copier, kind, job, i, whole, window); !sent) return sent;
  }
  return {};
}

Result<void> keep_changed(Job& job, const Window& window) noexcept {
  if (Result<void> compared = compare_states(job); !compared) return compared;
  std::vector<Allocation> pieces;
  std::size_t word = 0;
  bool is_unclear = false;
  for (const Allocation& region : job.regions) {
    for (std::uint64_t chunk = 0; chunk < chunks_of(region); ++chunk, ++word) {
      if (job.changed[word] == 0) continue;
      is_unclear = is_unclear || region.is_shared();
      Allocation piece = region;
      piece.base = region.base + chunk * k_chunk;
      piece.bytes = chunk_bytes(region, chunk);
      const bool joins = !pieces.empty() && pieces.back().end() == piece.base && chunk != 0;
      if (joins) {
        pieces.back().bytes += piece.bytes;
      } else {
        pieces.push_back(piece);
      }
    }
  }
  if (is_unclear) {
    warn("memory that the program shares with other processes (IPC) changed while the kernel ran: unless the kernel wrote it, a "
         "replay differs by it");
  }
  if (pieces.empty()) return {};
  Copier& copier = job.engines->copier;
  job.post = copier.allocate(Copier::layout(pieces).back());
  // A comparison may take as long as calls wait at most.
  if (Result<void> fine = window.was_undisturbed(); !fine) return fine;
  if (job.post != 0) return copier.gather(pieces, job.post, wait_deadline());
  // What was changed has still to be undone, and nobody goes on before that.
  if (job.from_graph) {
    return Error{ErrorCode::unsupported, "what a kernel in a CUDA graph changed needs more free device memory to be captured than there is"};
  }
  // The pre-state has to be with the collector before anything can be the same as it.
  if (Result<void> sent = send_pre(copier, job); !sent) return sent;
  if (Result<void> sent = send_post(copier, job, &window); !sent) return sent;
  copier.free(job.pre);
  job.pre = 0;
  return {};
}

Result<void> send_kept(Copier& copier, Job& job) noexcept {
  if (job.pre == 0) return {};
  if (Result<void> ready = copier.prepare(); !ready) return ready;
  if (Result<void> sent = send_pre(copier, job); !sent) return sent;
  copier.free(job.pre);
  job.pre = 0;
  return job.changed.empty() ? Result<void>() : send_post(copier, job, nullptr);
}

bool is_small(const Job& job) noexcept {
  return job.cost.copied_bytes <= k_small_bytes && job.regions.size() <= k_few_regions;
}

}  // namespace kerncap::cuda
