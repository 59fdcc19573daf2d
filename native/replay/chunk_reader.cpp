// Reads single chunks through the store's own reader.
#include "replay/chunk_reader.hpp"

namespace kerncap::replay {

core::Result<void> ChunkReader::read(const std::string& digest, std::span<std::byte> out) {
  const auto name = core::Digest::from_hex(digest);
  if (!name) return core::Error{core::ErrorCode::invalid_argument, "not a digest: " + digest};
  return m_store->read(*name, out, m_verify, m_buffers);
}

}  // namespace kerncap::replay
