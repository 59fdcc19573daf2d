// Threads that read chunks out of a store, each straight to where it is wanted.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/object_store.hpp"
#include "core/result.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

// One chunk of a piece of memory.
struct ChunkJob {
  const Memory* memory;
  std::size_t index;                    // in memory->chunks
  std::size_t owner;                    // whatever the caller counts by
  bool is_verified = false;             // it was hashed before, and is not now

  [[nodiscard]] const std::string& digest() const { return memory->chunks[index]; }
  [[nodiscard]] std::uint64_t offset() const { return index * memory->chunk_bytes; }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(std::min(memory->chunk_bytes, memory->bytes - offset()));
  }
  [[nodiscard]] bool is_zero() const { return digest().empty(); }
};

struct Fetch {
  ChunkJob job;
  std::byte* where;                     // job.bytes() of the caller's, not touched by it until the chunk is there
  std::size_t buffer;                   // whatever the caller counts by
  bool is_new = false;                  // memory that nobody has touched yet
};

class ChunkFetcher {
 public:
  // `verify`: hash what is read; not needed for what was verified before.
  ChunkFetcher(std::shared_ptr<core::ObjectStore> store, bool verify);
  ChunkFetcher(const ChunkFetcher&) = delete;
  ChunkFetcher& operator=(const ChunkFetcher&) = delete;
  // Drops what was not begun.
  ~ChunkFetcher();

  // How many chunks are read at a time.
  [[nodiscard]] static std::size_t worker_count();

  void start(const Fetch& fetch);
  // Waits for one of those that were started, whichever is ready. An error is that of its chunk.
  [[nodiscard]] core::Result<Fetch> finish();

 private:
  void work();

  std::shared_ptr<core::ObjectStore> m_store;
  const bool m_verify;
  std::mutex m_mutex;
  std::condition_variable m_started;
  std::condition_variable m_finished;
  std::deque<Fetch> m_todo;
  std::deque<core::Result<Fetch>> m_done;
  bool m_stop = false;
  std::vector<std::thread> m_threads;
};

// Reads all of them, and calls `use` on this thread for each as it comes, in no order. Stops at the first error of either
// side. `verify`: as above.
[[nodiscard]] core::Result<void> for_each_chunk(
    std::shared_ptr<core::ObjectStore> store, const std::vector<ChunkJob>& jobs,
    const std::function<core::Result<void>(const ChunkJob&, std::span<const std::byte>)>& use, bool verify = true);

// All of a small memory, verified, on this thread.
[[nodiscard]] core::Result<std::vector<std::byte>> read_memory(const core::ObjectStore& store, const Memory& memory);

// Whether these bytes are the chunk of that digest; of zeros it is empty.
[[nodiscard]] bool is_chunk(std::span<const std::byte> data, const std::string& digest);

}  // namespace kerncap::replay
