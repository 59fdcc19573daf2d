// Restores memory from its chunks on all cores, and checks many objects at once.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/object_store.hpp"
#include "core/transaction.hpp"
#include "core/worker_pool.hpp"

namespace kerncap::core {

class MemoryReader {
 public:
  explicit MemoryReader(std::shared_ptr<ObjectStore> store, std::size_t threads = 0);

  // Fills `memory`, whose chunks are `chunk_bytes` long (the last may be short); chunks without a digest become
  // zeros. Stops at the first fault and names it.
  [[nodiscard]] Result<void> read(const ChunkDigests& chunks, std::size_t chunk_bytes, std::span<std::byte> memory,
                                  bool verify);

  // Reads and hashes every object; calls `faulty` for those that are missing or damaged, from one thread at a time.
  void check(std::span<const Digest> digests, const std::function<void(const Digest&, const Error&)>& faulty);

 private:
  std::shared_ptr<ObjectStore> m_store;
  WorkerPool m_pool;
  std::vector<ReadBuffers> m_buffers;
};

}  // namespace kerncap::core
