// The one write path of the store: objects are staged in a folder of the transaction's own and appear all at
// once, on disk, or never. Whatever kills the process, a manifest never names an object that is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/digest.hpp"
#include "core/object_store.hpp"
#include "core/result.hpp"
#include "core/worker_pool.hpp"

namespace kerncap::core {

// Memory is cut into chunks of this size, measured from its base: docs/decisions says how it was chosen.
inline constexpr std::size_t k_chunk_bytes = 1024 * 1024;

// What a transaction has seen so far, in bytes of payload.
struct WriteCounts {
  std::uint64_t zero_bytes = 0;    // recorded, not stored
  std::uint64_t known_bytes = 0;   // were in the store, or staged, already
  std::uint64_t new_bytes = 0;
  std::uint64_t stored_bytes = 0;  // size of the new frames on disk
};

// The chunks of one piece of memory; none for a chunk of zeros.
using ChunkDigests = std::vector<std::optional<Digest>>;

class Transaction {
 public:
  // Holds a shared lock on the store: nothing is collected while a transaction lives.
  [[nodiscard]] static Result<std::unique_ptr<Transaction>> begin(std::shared_ptr<ObjectStore> store,
                                                                  std::size_t threads = 0);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  // Throws away what was not published.
  ~Transaction();

  // Stages one payload under its digest.
  [[nodiscard]] Result<Digest> put(std::span<const std::byte> payload);

  // Stages a file whole, in pieces.
  [[nodiscard]] Result<Digest> put_file(const std::string& path);

  // Stages an object from another store or an archive: `bytes` bytes of `fd` from `offset` are its frame. Copied as
  // they are, shared with the source where the file system can, and verified.
  [[nodiscard]] Result<void> adopt(int fd, std::uint64_t offset, std::uint64_t bytes, const Digest& digest);

  // Stages the chunks of `memory`, a multiple of k_chunk_bytes long unless it is the end of its allocation, on all
  // threads; appends their digests.
  [[nodiscard]] Result<void> put_chunks(std::span<const std::byte> memory, ChunkDigests& digests);

  // Writes everything staged to disk, then makes it appear. The transaction can go on afterwards.
  [[nodiscard]] Result<void> publish();

  [[nodiscard]] WriteCounts counts() const;

 private:
  struct Worker {
    FrameWriter writer;
  };

  Transaction(std::shared_ptr<ObjectStore> store, std::size_t threads);
  [[nodiscard]] Result<void> open_staging();
  [[nodiscard]] bool claim(const Digest& digest, std::size_t payload_bytes);
  [[nodiscard]] Result<Digest> put_by(Worker& worker, std::span<const std::byte> payload);
  [[nodiscard]] Result<void> store_frame(Worker& worker, const Digest& digest, std::span<const std::byte> payload);
  void forget(const Digest& digest);
  void add(std::uint64_t WriteCounts::*counter, std::uint64_t bytes);
  void discard() noexcept;

  std::shared_ptr<ObjectStore> m_store;
  UniqueFd m_lock;
  UniqueFd m_transactions;  // tmp/
  UniqueFd m_staging;       // tmp/<name>/
  UniqueFd m_live;          // tmp/<name>/live, locked while we live
  std::string m_name;
  WorkerPool m_pool;
  std::vector<Worker> m_workers;
  mutable std::mutex m_mutex;
  std::unordered_set<Digest, DigestHash> m_claimed;  // staged, or known to be in the store
  std::vector<Digest> m_staged;
  WriteCounts m_counts;
  unsigned m_files = 0;
};

// Whether all bytes are zero.
[[nodiscard]] bool all_zero(std::span<const std::byte> bytes) noexcept;

// Streams memory of a known size into a transaction, in order, in pieces of any length.
class MemoryWriter {
 public:
  MemoryWriter(Transaction& transaction, std::uint64_t size_bytes) noexcept
      : m_transaction(transaction), m_size_bytes(size_bytes) {}

  [[nodiscard]] Result<void> append(std::span<const std::byte> piece);
  // The same for a run of zeros that nobody has to hold in memory.
  [[nodiscard]] Result<void> append_zeros(std::uint64_t bytes);
  // Takes the next `bytes` from another list of the same size, such as the pre-state; whole chunks are shared.
  [[nodiscard]] Result<void> append_same(std::uint64_t bytes, const ChunkDigests& other);

  // Stages the chunk list and returns its digest; an error unless exactly `size_bytes` were appended.
  [[nodiscard]] Result<Digest> finish();
  [[nodiscard]] const ChunkDigests& chunks() const noexcept { return m_chunks; }

 private:
  [[nodiscard]] Result<void> check_room(std::uint64_t bytes) const;
  [[nodiscard]] std::size_t rest_of_chunk() const noexcept;

  Transaction& m_transaction;
  std::uint64_t m_size_bytes;
  std::uint64_t m_done = 0;
  std::vector<std::byte> m_partial;  // the beginning of a chunk whose end has not come yet
  ChunkDigests m_chunks;
};

// The canonical bytes of a chunk list.
[[nodiscard]] std::string chunk_list_payload(std::uint64_t size_bytes, const ChunkDigests& chunks);

}  // namespace kerncap::core
