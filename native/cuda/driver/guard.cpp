// Takes away the device's right to write. cuMemSetAccess() takes whole mappings, so each piece is one.
#include <cstdint>

#include "cuda/driver/cuda_driver.hpp"

namespace kerncap::cuda {

using core::Result;

Result<void> CudaDriver::map_pieces(std::uint64_t base, std::uint64_t bytes, const replay::Region& region) {
  if (region.piece != 0) return map(base, bytes, region);
  for (const replay::Guard::Piece& piece : m_guard.cut(base, bytes)) {
    if (Result<void> mapped = map(piece.base, piece.bytes, region); !mapped) return mapped;
    if (piece.guarded) m_guarded.push_back({{piece.base, piece.bytes}, &region});
  }
  return {};
}

Result<void> CudaDriver::guard(bool on) {
  Result<void> done = settle();
  const CUmemAccess_flags rights = on ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (const Guarded& each : m_guarded) {
    if (done) done = grant(each.range.base, each.range.bytes, *each.region, rights);
  }
  return done;
}

std::uint64_t CudaDriver::guarded_bytes() const {
  std::uint64_t bytes = 0;
  for (const Guarded& each : m_guarded) bytes += each.range.bytes;
  return bytes;
}

}  // namespace kerncap::cuda
