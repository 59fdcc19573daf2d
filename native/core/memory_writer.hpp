// Streams memory of a known size into a transaction, in order, in pieces of any length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/chunk_list.hpp"
#include "core/result.hpp"
#include "core/transaction.hpp"

namespace kerncap::core {

class MemoryWriter {
 public:
  MemoryWriter(Transaction& transaction, std::uint64_t size_bytes) noexcept
      : m_transaction(transaction), m_size_bytes(size_bytes) {}

  // Returns when the bytes are staged and may change again. Whole chunks go straight from the caller's memory: pieces
  // that are a multiple of k_chunk_bytes long are never copied.
  [[nodiscard]] Result<void> append(std::span<const std::byte> piece);
  // The same in two steps, for whole chunks: null where the bytes were staged at once, as append() does it. Else they
  // must stay as they are until Transaction::finish_chunks(), and so must this writer.
  [[nodiscard]] Result<std::shared_ptr<Transaction::Chunks>> start(std::span<const std::byte> piece);
  // The same for a run of zeros that nobody has to hold in memory.
  [[nodiscard]] Result<void> append_zeros(std::uint64_t bytes);
  // Takes the next `bytes` from another list, such as the pre-state: `chunks` are those that hold just these, whole.
  [[nodiscard]] Result<void> append_same(std::uint64_t bytes, const ChunkDigests& chunks);

  // Stages the chunk list and returns its digest; an error unless exactly `size_bytes` were appended. What was started
  // has been finished.
  [[nodiscard]] Result<Digest> finish();
  [[nodiscard]] const ChunkDigests& chunks() const noexcept { return m_chunks; }

 private:
  [[nodiscard]] Result<void> check_room(std::uint64_t bytes) const;
  [[nodiscard]] std::size_t rest_of_chunk() const noexcept;
  [[nodiscard]] bool is_whole(std::uint64_t bytes) const noexcept;

  Transaction& m_transaction;
  std::uint64_t m_size_bytes;
  std::uint64_t m_done = 0;
  std::vector<std::byte> m_partial;  // the beginning of a chunk whose end has not come yet
  ChunkDigests m_chunks;
};

}  // namespace kerncap::core
