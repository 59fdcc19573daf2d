// The device puts back what is its own. Host memory is the processor's task, word by word, as it alone can exchange a word with
// threads of the program beside it: what they have written since is theirs.
#include "cuda/put_back.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/chunk_list.hpp"
#include "core/process_maps.hpp"
#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::uint64_t k_chunk = core::k_chunk_bytes;
constexpr std::uint64_t k_most_by_words = 64ull << 20;   // more takes too long
// A thread that writes all the time has done so again behind it, also one that waited for a page that we had on the device.
constexpr std::chrono::milliseconds k_moment{20};

struct Chunk {
  std::uint64_t address;
  CUdeviceptr kept;
  std::uint64_t bytes;
  PutBack how;
};

Result<std::vector<Chunk>> changed_chunks(const std::vector<Allocation>& regions, CUdeviceptr kept,
                                          const std::vector<PutBack>& how, Copier& copier, Changed& kernel) {
  const CUstream stream = copier.stream();
  const std::vector<std::uint64_t> offsets = Copier::layout(regions);
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (how[i] == PutBack::nothing || how[i] == PutBack::whole) continue;
    for (std::uint64_t at = 0; at < regions[i].bytes; at += k_chunk) {
      chunks.push_back({regions[i].base + at, kept + offsets[i] + at, std::min(k_chunk, regions[i].bytes - at), how[i]});
    }
  }
  if (chunks.empty()) return chunks;
  if (Result<void> ready = kernel.prepare(); !ready) return ready.error();
  if (Result<void> begun = kernel.begin(chunks.size(), stream); !begun) return begun.error();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!Changed::can_compare(chunks[i].address)) continue;   // counts as changed
    Result<void> compared = kernel.compare(chunks[i].kept, chunks[i].address, chunks[i].bytes, k_chunk, i, stream);
    if (!compared) return compared.error();
  }
  if (Result<void> compared = copier.finish("comparing memory", wait_deadline()); !compared) return compared.error();
  const Result<std::vector<std::uint32_t>> words = kernel.fetch();
  if (!words) return words.error();
  std::vector<Chunk> found;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const bool is_unknown = !Changed::can_compare(chunks[i].address) && chunks[i].how != PutBack::others;
    if (words.value()[i] != 0 || is_unknown) found.push_back(chunks[i]);
  }
  return found;
}

template <typename Word>
void exchange(std::byte* now, const std::byte* before, const std::byte* after) noexcept {
  Word was;
  Word became;
  std::memcpy(&was, before, sizeof was);
  std::memcpy(&became, after, sizeof became);
  if (was == became) return;
  std::atomic_ref<Word>(*reinterpret_cast<Word*>(now)).compare_exchange_strong(became, was);
}

void put_words_back(std::byte* now, const std::byte* before, const std::byte* after, std::uint64_t bytes) noexcept {
  using Word = std::uint64_t;
  for (std::uint64_t at = 0; at < bytes;) {
    const bool is_word = reinterpret_cast<std::uintptr_t>(now + at) % sizeof(Word) == 0 && bytes - at >= sizeof(Word);
    if (is_word) {
      exchange<Word>(now + at, before + at, after + at);
    } else {
      exchange<std::uint8_t>(now + at, before + at, after + at);
    }
    at += is_word ? sizeof(Word) : 1;
  }
}

bool changed_once(const std::byte* now, const std::byte* before, const std::byte* after, std::uint64_t bytes) noexcept {
  for (std::uint64_t at = 0; at < bytes; ++at) {
    if (before[at] != after[at] && now[at] == after[at]) return true;
  }
  return false;
}

// By the device, whatever the program's threads have written there.
Result<void> put_chunks_back(const std::vector<Chunk>& chunks, Copier& copier) noexcept {
  for (const Chunk& chunk : chunks) {
    if (chunk.how != PutBack::words) continue;
    Result<void> copied =
        checked("putting host memory back", driver().cuMemcpyAsync(chunk.address, chunk.kept, chunk.bytes, copier.stream()));
    if (!copied) return copied;
  }
  return copier.finish("putting memory back", wait_deadline());
}

// Where the program's threads may write now, in ascending order; all of the address space where the system does not tell.
std::vector<std::pair<std::uint64_t, std::uint64_t>> writable_ranges() {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  const std::optional<std::vector<core::ProcessMapping>> all = core::process_mappings();
  if (!all) return {{0, ~std::uint64_t{0}}};
  for (const core::ProcessMapping& each : *all) {
    if (!each.is_readable() || !each.is_writable()) continue;
    if (!ranges.empty() && ranges.back().second == each.begin) {
      ranges.back().second = each.end;
    } else {
      ranges.emplace_back(each.begin, each.end);
    }
  }
  return ranges;
}

// Memory that is pinned may be protected: then nobody but the device writes there, whoever was given the address, and the processor must
// not touch it.
std::vector<Chunk> take_protected(std::vector<Chunk>& chunks) {
  if (chunks.empty()) return {};
  const auto ranges = writable_ranges();
  const auto first = std::stable_partition(chunks.begin(), chunks.end(), [&ranges](const Chunk& chunk) {
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), chunk.address,
                                        [](std::uint64_t address, const auto& range) { return address < range.first; });
    return after != ranges.begin() && chunk.address + chunk.bytes <= std::prev(after)->second;
  });
  std::vector<Chunk> taken(first, chunks.end());
  for (Chunk& chunk : taken) chunk.how = PutBack::words;
  chunks.erase(first, chunks.end());
  return taken;
}

void tell_of_others(std::vector<Chunk>& chunks) noexcept {
  if (std::erase_if(chunks, [](const Chunk& chunk) { return chunk.how == PutBack::others; }) == 0) return;
  warn("memory that other processes or GPUs share changed while a kernel of a CUDA graph was captured, though no node is given an "
       "address there: unless they wrote it, the graph did, twice, and the program's results may be wrong");
}

Result<void> put_host_memory_back(std::vector<Chunk> chunks, Copier& copier) noexcept {
  if (Result<void> done = put_chunks_back(take_protected(chunks), copier); !done) return done;
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : chunks) bytes += chunk.bytes;
  if (bytes == 0) return {};
  const auto by_malloc = [](std::byte* memory) { std::free(memory); };
  std::unique_ptr<std::byte, decltype(by_malloc)> room(nullptr, by_malloc);
  if (bytes <= k_most_by_words) room.reset(static_cast<std::byte*>(std::malloc(2 * bytes)));
  if (room == nullptr) return put_chunks_back(chunks, copier);
  std::byte* before = room.get();
  std::byte* after = before + bytes;
  for (const Chunk& chunk : chunks) {
    Result<void> fetched = checked("reading a snapshot", driver().cuMemcpyDtoH_v2(before, chunk.kept, chunk.bytes));
    if (!fetched) return fetched;
    std::memcpy(after, reinterpret_cast<const std::byte*>(chunk.address), chunk.bytes);
    before += chunk.bytes;
    after += chunk.bytes;
  }
  std::this_thread::sleep_for(k_moment);   // whole, whatever signals come
  before = room.get();
  after = before + bytes;
  bool is_unclear = false;
  for (const Chunk& chunk : chunks) {
    auto* now = reinterpret_cast<std::byte*>(chunk.address);
    if (chunk.how == PutBack::words) put_words_back(now, before, after, chunk.bytes);
    if (chunk.how == PutBack::warning) is_unclear = is_unclear || changed_once(now, before, after, chunk.bytes);
    before += chunk.bytes;
    after += chunk.bytes;
  }
  if (is_unclear) {
    warn("pinned memory changed while a kernel of a CUDA graph was captured, though no node is given an address there: unless the "
         "program's own threads wrote it, the graph did, twice, and the program's results may be wrong");
  }
  return {};
}

}  // namespace

Result<void> put_back(const std::vector<Allocation>& regions, CUdeviceptr kept, const std::vector<PutBack>& how, Copier& copier,
                      Changed& changed) noexcept {
  std::vector<bool> whole(regions.size());
  for (std::size_t i = 0; i < regions.size(); ++i) whole[i] = how[i] == PutBack::whole;
  // Looked at before the device is busy with its own.
  Result<std::vector<Chunk>> chunks = changed_chunks(regions, kept, how, copier, changed);
  const Result<void> scattered = copier.scatter(regions, kept, whole, wait_deadline());
  if (!chunks) return chunks.error();
  if (!scattered && scattered.error().code == ErrorCode::timeout) return scattered;   // nothing is queued behind it
  tell_of_others(chunks.value());
  const Result<void> host = put_host_memory_back(std::move(chunks.value()), copier);
  return scattered ? host : scattered;
}

}  // namespace kerncap::cuda
