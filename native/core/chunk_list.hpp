// The payload of a memory object: which chunks a piece of memory consists of. docs/store.md, "Memory".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest.hpp"
#include "core/result.hpp"

namespace kerncap::core {

// Memory is cut into chunks of this size, measured from its base: docs/decisions/0004 says how it was chosen.
inline constexpr std::size_t k_chunk_bytes = 1024 * 1024;

// Bounds what a list takes in memory (33 bytes a chunk), and lets it fit into 256 MiB: 3.8 TiB of memory.
inline constexpr std::size_t k_most_chunks = 4'000'000;

// None for a chunk of zeros.
using ChunkDigest = std::optional<Digest>;
// The chunks of one piece of memory.
using ChunkDigests = std::vector<ChunkDigest>;

struct ChunkList {
  std::uint64_t size_bytes = 0;
  std::uint64_t chunk_bytes = k_chunk_bytes;
  ChunkDigests chunks;

  // The canonical bytes.
  [[nodiscard]] std::string payload() const;

  // Accepts canonical bytes only, and only if the parts fit together.
  [[nodiscard]] static Result<ChunkList> parse(std::string_view payload);
};

}  // namespace kerncap::core
