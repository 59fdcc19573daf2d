// Memory in order, chunk by chunk, and the list that names the chunks.
#include "core/memory_writer.hpp"

#include <algorithm>
#include <string>

namespace kerncap::core {

std::size_t MemoryWriter::rest_of_chunk() const noexcept {
  return k_chunk_bytes - static_cast<std::size_t>(m_done % k_chunk_bytes);
}

Result<void> MemoryWriter::check_room(std::uint64_t bytes) const {
  if (m_size_bytes > std::uint64_t{k_most_chunks} * k_chunk_bytes) {
    return Error{ErrorCode::invalid_argument, "memory of " + std::to_string(m_size_bytes) + " bytes: the most that " +
                                                  "one piece may have is " +
                                                  std::to_string(std::uint64_t{k_most_chunks} * k_chunk_bytes)};
  }
  if (bytes <= m_size_bytes - m_done) return {};
  return Error{ErrorCode::invalid_argument, "more bytes than the " + std::to_string(m_size_bytes) + " announced"};
}

Result<void> MemoryWriter::append(std::span<const std::byte> piece) {
  if (auto status = check_room(piece.size()); !status) return status;
  while (!piece.empty()) {
    const bool ends = m_done + piece.size() == m_size_bytes;
    if (m_partial.empty() && (piece.size() >= k_chunk_bytes || ends)) {
      const std::size_t whole = ends ? piece.size() : piece.size() / k_chunk_bytes * k_chunk_bytes;
      if (auto status = m_transaction.put_chunks(piece.first(whole), m_chunks); !status) return status;
      m_done += whole;
      piece = piece.subspan(whole);
      continue;
    }
    const std::size_t taken = std::min(piece.size(), rest_of_chunk());
    m_partial.insert(m_partial.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(taken));
    m_done += taken;
    piece = piece.subspan(taken);
    if (m_partial.size() == k_chunk_bytes || m_done == m_size_bytes) {
      if (auto status = m_transaction.put_chunks(m_partial, m_chunks); !status) return status;
      m_partial.clear();
    }
  }
  return {};
}

// Whether the next `bytes` begin and end where chunks do.
bool MemoryWriter::is_whole(std::uint64_t bytes) const noexcept {
  return m_partial.empty() && (bytes % k_chunk_bytes == 0 || m_done + bytes == m_size_bytes);
}

Result<std::shared_ptr<Transaction::Chunks>> MemoryWriter::start(std::span<const std::byte> piece) {
  if (auto status = check_room(piece.size()); !status) return status.error();
  if (!is_whole(piece.size())) {
    if (auto status = append(piece); !status) return status.error();
    return std::shared_ptr<Transaction::Chunks>();
  }
  const auto chunks_of = [](std::uint64_t bytes) {
    return static_cast<std::size_t>(bytes / k_chunk_bytes + (bytes % k_chunk_bytes != 0));
  };
  // The digests are written where they are: the list may not move.
  m_chunks.reserve(chunks_of(m_size_bytes));
  const std::size_t before = m_chunks.size();
  m_chunks.resize(before + chunks_of(piece.size()));
  m_done += piece.size();
  return m_transaction.start_chunks(piece, std::span(m_chunks).subspan(before));
}

Result<void> MemoryWriter::append_zeros(std::uint64_t bytes) {
  static const std::vector<std::byte> s_zeros(k_chunk_bytes);
  if (auto status = check_room(bytes); !status) return status;
  while (bytes > 0) {
    const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, rest_of_chunk()));
    if (m_partial.empty() && (taken == k_chunk_bytes || m_done + taken == m_size_bytes)) {
      m_chunks.emplace_back();
      m_done += taken;
    } else if (auto status = append(std::span(s_zeros).first(taken)); !status) {
      return status;
    }
    bytes -= taken;
  }
  return {};
}

Result<void> MemoryWriter::append_same(std::uint64_t bytes, const ChunkDigests& chunks) {
  if (auto status = check_room(bytes); !status) return status;
  const std::size_t count = static_cast<std::size_t>((bytes + k_chunk_bytes - 1) / k_chunk_bytes);
  if (!is_whole(bytes) || chunks.size() != count) {
    return Error{ErrorCode::invalid_argument, "only whole chunks can be shared: " + std::to_string(chunks.size()) +
                                                  " were given for " + std::to_string(bytes) + " bytes"};
  }
  m_chunks.insert(m_chunks.end(), chunks.begin(), chunks.end());
  m_done += bytes;
  return {};
}

Result<Digest> MemoryWriter::finish() {
  if (m_done != m_size_bytes) {
    return Error{ErrorCode::invalid_argument,
                 "memory ends after " + std::to_string(m_done) + " of " + std::to_string(m_size_bytes) + " bytes"};
  }
  const ChunkList list{m_size_bytes, k_chunk_bytes, m_chunks};
  const std::string payload = list.payload();
  return m_transaction.put(std::as_bytes(std::span(payload)), Level::list);
}

}  // namespace kerncap::core
