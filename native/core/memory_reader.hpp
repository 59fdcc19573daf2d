// Restores memory from its chunks on all cores, and checks many objects at once. Takes no lock: the caller does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/chunk_list.hpp"
#include "core/object_store.hpp"
#include "core/worker_pool.hpp"

namespace kerncap::core {

class MemoryReader {
 public:
  explicit MemoryReader(std::shared_ptr<ObjectStore> store, std::size_t threads = 0);

  // The chunk list of that digest, verified.
  [[nodiscard]] Result<ChunkList> list(const Digest& digest);

  // Fills `memory`, which has the list's size: a whole piece of memory, or those of its chunks from `first_chunk` on
  // that `memory` has room for. Stops at the first fault and names it.
  [[nodiscard]] Result<void> read(const ChunkList& list, std::span<std::byte> memory, bool verify,
                                  std::size_t first_chunk = 0);

  // Reads and hashes every object; calls `faulty` for those that are missing or damaged, from one thread at a time.
  void check(std::span<const Digest> digests, const std::function<void(const Digest&, const Error&)>& faulty);

 private:
  std::shared_ptr<ObjectStore> m_store;
  WorkerPool m_pool;
  std::vector<ReadBuffers> m_buffers;
};

}  // namespace kerncap::core
