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

#include "core/chunk_list.hpp"
#include "core/digest.hpp"
#include "core/frame.hpp"
#include "core/object_store.hpp"
#include "core/result.hpp"
#include "core/staging.hpp"
#include "core/worker_pool.hpp"

namespace kerncap::core {

// What a transaction has seen so far, in bytes of payload.
struct WriteCounts {
  std::uint64_t zero_bytes = 0;    // recorded, not stored
  std::uint64_t known_bytes = 0;   // were in the store, or staged, already
  std::uint64_t new_bytes = 0;
  std::uint64_t stored_bytes = 0;  // size of the new frames on disk
};

// Where an object's frame lies in a file.
struct ForeignFrame {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Digest digest;
};

// May be used from several threads; one of their calls runs at a time, on all cores.
class Transaction {
 public:
  // `threads` 0 means as many as there are processors.
  [[nodiscard]] static Result<std::unique_ptr<Transaction>> begin(std::shared_ptr<ObjectStore> store,
                                                                  std::size_t threads = 0);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Stages one payload under its digest.
  [[nodiscard]] Result<Digest> put(std::span<const std::byte> payload, Level level = Level::manifest);

  // Stages a file whole, in pieces.
  [[nodiscard]] Result<Digest> put_file(const std::string& path);

  // Stages objects from another store or an archive, on all threads: their frames lie in `fd`. Copied as they are,
  // shared with the source where the file system can, and verified.
  [[nodiscard]] Result<void> adopt(int fd, std::span<const ForeignFrame> frames);

  // Stages the chunks of `memory`, a multiple of k_chunk_bytes long unless it is the end of its allocation, on all
  // threads; appends their digests.
  [[nodiscard]] Result<void> put_chunks(std::span<const std::byte> memory, ChunkDigests& digests);

  // The same in two steps, so that the next piece is begun before the last thread is done with this one. `memory` and
  // `digests`, one for each chunk, must stay until it is finished, and so must the transaction.
  using Chunks = WorkerPool::Job;
  [[nodiscard]] std::shared_ptr<Chunks> start_chunks(std::span<const std::byte> memory, std::span<ChunkDigest> digests);
  [[nodiscard]] Result<void> finish_chunks(const Chunks& chunks);

  // Makes sure that objects of the store stay while this transaction lives. Returns those that are neither there nor
  // staged.
  [[nodiscard]] Result<std::vector<Digest>> require(std::span<const Digest> digests);

  // The payload of an object that is staged, or in the store.
  [[nodiscard]] Result<std::vector<std::byte>> read(const Digest& digest, std::uint64_t most_bytes);

  // Writes everything staged to disk and makes it appear, then lists the artifacts, whose manifests are staged or
  // stored. Nothing appears if one of `needed`, which is all that they reach, is neither staged nor stored any more: a
  // check sets aside what is damaged, whoever relies on it. The transaction can go on afterwards; after a failure it
  // cannot.
  [[nodiscard]] Result<void> publish(std::span<const ArtifactLine> lines, std::span<const Digest> needed = {});

  // Throws away what was not published; every later call is an error. So does the destructor.
  void discard();

  [[nodiscard]] WriteCounts counts() const;

 private:
  struct Worker {
    FrameWriter writer;
    ReadBuffers buffers;
  };

  Transaction(std::shared_ptr<ObjectStore> store, std::size_t threads);
  [[nodiscard]] Result<void> adopt_one(int fd, const ForeignFrame& frame, ReadBuffers& buffers);
  [[nodiscard]] Result<Digest> put_by(FrameWriter& writer, std::span<const std::byte> payload, Level level);
  void put_chunk(std::size_t worker, std::span<const std::byte> chunk, ChunkDigest& digest);
  [[nodiscard]] Result<Digest> put_large_file(const std::string& path, int source, std::uint64_t size_bytes);
  [[nodiscard]] Result<bool> claim(const Digest& digest, std::uint64_t payload_bytes);
  [[nodiscard]] Result<bool> pin_if_stored(const Digest& digest);
  void staged(const Digest& digest, Level level, std::uint64_t payload_bytes, std::uint64_t stored_bytes);
  [[nodiscard]] Result<void> still_good() const;
  [[nodiscard]] Error fail(const Error& error);

  std::shared_ptr<ObjectStore> m_store;
  std::unique_ptr<Staging> m_staging;
  std::mutex m_call;    // one call at a time uses the pool and the workers
  WorkerPool m_pool;
  std::vector<Worker> m_workers;
  mutable std::mutex m_mutex;  // guards what follows
  std::unordered_set<Digest, DigestHash> m_claimed;  // staged, being staged, or pinned
  std::vector<StagedObject> m_staged;
  WriteCounts m_counts;
  std::optional<Error> m_failure;
};

// Whether all bytes are zero.
[[nodiscard]] bool all_zero(std::span<const std::byte> bytes) noexcept;

}  // namespace kerncap::core
