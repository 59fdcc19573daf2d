// Takes away the device's right to write. hsa_amd_vmem_set_access() takes whole mappings, so each piece is one.
#include <cstdint>

#include "hsa/driver/hsa_driver.hpp"

namespace kerncap::hsa {

using core::Result;

Result<void> HsaDriver::map_pieces(const replay::Range& range) {
  if (range.first->piece != 0) return map(range);
  for (const replay::Guard::Piece& piece : m_guard.cut(range.base, range.bytes)) {
    const replay::Range part{piece.base, piece.bytes, range.first};
    if (Result<void> mapped = map(part); !mapped) return mapped;
    if (piece.guarded) m_guarded.push_back(part);
  }
  return {};
}

Result<void> HsaDriver::guard(bool on) {
  Result<void> done = settle();
  for (const replay::Range& each : m_guarded) {
    if (done) done = grant(each, on ? HSA_ACCESS_PERMISSION_RO : HSA_ACCESS_PERMISSION_RW);
  }
  return done;
}

std::uint64_t HsaDriver::guarded_bytes() const {
  std::uint64_t bytes = 0;
  for (const replay::Range& each : m_guarded) bytes += each.bytes;
  return bytes;
}

}  // namespace kerncap::hsa
