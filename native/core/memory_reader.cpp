// One item of work is one chunk or a batch of objects; buffers belong to the worker.
#include "core/memory_reader.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>

namespace kerncap::core {
namespace {

constexpr std::size_t k_batch = 64;
constexpr std::uint64_t k_most_list_bytes = std::uint64_t{256} << 20;  // the list of k_most_chunks

}  // namespace

MemoryReader::MemoryReader(std::shared_ptr<ObjectStore> store, std::size_t threads)
    : m_store(std::move(store)), m_pool(threads), m_buffers(m_pool.size()) {}

Result<ChunkList> MemoryReader::list(const Digest& digest) {
  auto payload = m_store->read_whole(digest, k_most_list_bytes, true, m_buffers[0]);
  if (!payload) return payload.error();
  const auto& bytes = payload.value();
  auto list = ChunkList::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!list) return named(digest, list.error());
  return list;
}

Result<void> MemoryReader::read(const ChunkList& list, std::span<std::byte> memory, bool verify,
                                std::size_t first_chunk) {
  const std::uint64_t start = list.chunk_bytes * std::uint64_t{first_chunk};
  if (start > list.size_bytes || memory.size() > list.size_bytes - start ||
      (memory.size() % list.chunk_bytes != 0 && memory.size() != list.size_bytes - start)) {
    return Error{ErrorCode::invalid_argument, "the buffer does not end where a chunk of the memory ends"};
  }
  const std::size_t chunk_bytes = list.chunk_bytes;
  std::mutex mutex;
  std::optional<Error> failure;
  std::atomic<bool> failed = false;
  const std::size_t count = memory.size() / chunk_bytes + (memory.size() % chunk_bytes != 0);
  m_pool.run(count, [&](std::size_t worker, std::size_t item) {
    if (failed.load(std::memory_order_relaxed)) return;
    const std::size_t offset = item * chunk_bytes;
    const auto target = memory.subspan(offset, std::min(chunk_bytes, memory.size() - offset));
    const auto& digest = list.chunks[first_chunk + item];
    if (!digest) {
      std::memset(target.data(), 0, target.size());
      return;
    }
    auto status = m_store->read(*digest, target, verify, m_buffers[worker]);
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
    const std::size_t start = batch * k_batch;
    for (const Digest& digest : digests.subspan(start, std::min(k_batch, digests.size() - start))) {
      auto checked = m_store->verify(digest, m_buffers[worker]);
      if (checked) continue;
      const std::lock_guard lock(mutex);
      faulty(digest, checked.error());
    }
  });
}

}  // namespace kerncap::core
