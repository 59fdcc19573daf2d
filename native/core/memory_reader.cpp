// One item of work is one chunk or a batch of objects; buffers belong to the worker.
#include "core/memory_reader.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

namespace kerncap::core {
namespace {

// Larger objects are checked in pieces: memory stays bounded whatever a frame declares.
constexpr std::uint64_t k_buffered_bytes = 8 * 1024 * 1024;
constexpr std::size_t k_batch = 64;

}  // namespace

MemoryReader::MemoryReader(std::shared_ptr<ObjectStore> store, std::size_t threads)
    : m_store(std::move(store)), m_pool(threads), m_buffers(m_pool.size()) {}

Result<void> MemoryReader::read(const ChunkDigests& chunks, std::size_t chunk_bytes, std::span<std::byte> memory,
                                bool verify) {
  if (chunk_bytes == 0 || chunks.size() != (memory.size() + chunk_bytes - 1) / chunk_bytes) {
    return Error{ErrorCode::damaged, "the chunk list does not fit the size of its memory"};
  }
  std::mutex mutex;
  std::optional<Error> failure;
  std::atomic<bool> failed = false;
  m_pool.run(chunks.size(), [&](std::size_t worker, std::size_t item) {
    if (failed.load(std::memory_order_relaxed)) return;
    const std::size_t start = item * chunk_bytes;
    const auto target = memory.subspan(start, std::min(chunk_bytes, memory.size() - start));
    if (!chunks[item]) {
      std::memset(target.data(), 0, target.size());
      return;
    }
    auto status = m_store->read(*chunks[item], target, verify, m_buffers[worker]);
    if (status) return;
    const std::lock_guard lock(mutex);
    if (!failure) failure = status.error();
    failed = true;
  });
  if (failure) return *failure;
  return {};
}

void MemoryReader::check(std::span<const Digest> digests,
                         const std::function<void(const Digest&, const Error&)>& faulty) {
  std::mutex mutex;
  m_pool.run((digests.size() + k_batch - 1) / k_batch, [&](std::size_t worker, std::size_t batch) {
    for (const Digest& digest : digests.subspan(batch * k_batch, std::min(k_batch, digests.size() - batch * k_batch))) {
      const auto size = m_store->payload_bytes(digest);
      std::optional<Error> fault;
      if (!size) {
        fault = size.error();
      } else if (size.value() <= k_buffered_bytes) {
        if (auto read = m_store->read_whole(digest, k_buffered_bytes, true, m_buffers[worker]); !read) fault = read.error();
      } else if (auto streamed = m_store->stream(digest, -1); !streamed) {
        fault = streamed.error();
      }
      if (!fault) continue;
      const std::lock_guard lock(mutex);
      faulty(digest, *fault);
    }
  });
}

}  // namespace kerncap::core
