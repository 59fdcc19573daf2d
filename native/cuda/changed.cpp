// A kernel of ours beside the program's: it is loaded once.
#include "cuda/changed.hpp"

#include <algorithm>

#include "cuda/api.hpp"
#include "cuda/this_thread.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::Result;

constexpr unsigned k_threads = 256;
constexpr std::uint64_t k_most_blocks = 2048;
constexpr std::uint64_t k_bytes_per_block = k_threads * 16 * 8;

}  // namespace

Result<void> Changed::prepare() noexcept {
  if (m_kernel != nullptr) return {};
  this_thread().loads_own_module = true;
  Result<void> made =
      checked("compiling our kernel", driver().cuModuleLoadDataEx(&m_module, k_changed_ptx, 0, nullptr, nullptr));
  if (made) made = checked("our kernel", driver().cuModuleGetFunction(&m_kernel, m_module, k_changed_kernel));
  this_thread().loads_own_module = false;
  return made;
}

Result<void> Changed::begin(std::uint64_t chunks, CUstream stream) noexcept {
  m_used = chunks;
  if (chunks > m_room) {
    if (m_flags != 0) driver().cuMemFree_v2(m_flags);
    m_flags = 0;
    m_room = 0;
    if (Result<void> made = checked("allocating memory", driver().cuMemAlloc_v2(&m_flags, chunks * 4)); !made) return made;
    m_room = chunks;
  }
  return checked("clearing memory", driver().cuMemsetD8Async(m_flags, 0, chunks * 4, stream));
}

Result<void> Changed::compare(CUdeviceptr before, CUdeviceptr now, std::uint64_t bytes, std::uint64_t chunk_bytes,
                              std::uint64_t first_chunk, CUstream stream) noexcept {
  CUdeviceptr flags = m_flags + first_chunk * 4;
  void* parameters[] = {&before, &now, &bytes, &chunk_bytes, &flags};
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>((bytes + k_bytes_per_block - 1) / k_bytes_per_block, 1, k_most_blocks));
  return checked("comparing memory", driver().cuLaunchKernel(m_kernel, blocks, 1, 1, k_threads, 1, 1, 0, stream,
                                                             parameters, nullptr));
}

Result<std::vector<std::uint32_t>> Changed::fetch() noexcept {
  std::vector<std::uint32_t> words(m_used);
  const Result<void> done = checked("fetching a comparison", driver().cuMemcpyDtoH_v2(words.data(), m_flags, m_used * 4));
  if (!done) return done.error();
  return words;
}

Result<void> Changed::give_back() noexcept {
  Result<void> done;
  if (m_flags != 0) done = checked("freeing memory", driver().cuMemFree_v2(m_flags));
  if (done && m_module != nullptr) done = checked("unloading our kernel", driver().cuModuleUnload(m_module));
  if (done) *this = Changed();
  return done;
}

}  // namespace kerncap::cuda
