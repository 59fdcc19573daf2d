// Reads whole regions out of the store: several threads fetch chunks ahead of the one that uses them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/result.hpp"
#include "replay/chunk_reader.hpp"
#include "replay/plan.hpp"

namespace kerncap::replay {

// One chunk of a piece of memory.
struct ChunkJob {
  const Memory* memory;
  std::size_t index;                    // in memory->chunks
  std::size_t owner;                    // whatever the caller counts by

  [[nodiscard]] std::uint64_t offset() const { return index * memory->chunk_bytes; }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(std::min(memory->chunk_bytes, memory->bytes - offset()));
  }
  [[nodiscard]] bool is_zero() const { return memory->chunks[index].empty(); }
};

// Calls `use` on this thread, once for each job, in order; chunks of zeros come as zeros. Stops at the first
// error of either side.
[[nodiscard]] core::Result<void> for_each_chunk(
    std::shared_ptr<core::ObjectStore> store, const std::vector<ChunkJob>& jobs,
    const std::function<core::Result<void>(const ChunkJob&, std::span<const std::byte>)>& use, bool verify = true);

// All of a small memory.
[[nodiscard]] core::Result<std::vector<std::byte>> read_memory(std::shared_ptr<core::ObjectStore> store,
                                                               const Memory& memory);

}  // namespace kerncap::replay
