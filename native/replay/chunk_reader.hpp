// Chunks of memory out of a store, decompressed and verified.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/object_store.hpp"
#include "core/result.hpp"

namespace kerncap::replay {

// One per thread: it keeps its buffers between chunks.
class ChunkReader {
 public:
  // `verify`: hash what is read; not needed for what was verified before.
  ChunkReader(std::shared_ptr<core::ObjectStore> store, bool verify) : m_store(std::move(store)), m_verify(verify) {}
  // The chunk must be exactly as long as `out`.
  [[nodiscard]] core::Result<void> read(const std::string& digest, std::span<std::byte> out);

 private:
  std::shared_ptr<core::ObjectStore> m_store;
  bool m_verify;
  core::ReadBuffers m_buffers;
};

}  // namespace kerncap::replay
