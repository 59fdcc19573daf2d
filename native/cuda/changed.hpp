// Finds on the device which chunks of memory a kernel changed: what did not change never leaves the device.
#pragma once

#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

extern const char k_changed_ptx[];
constexpr char k_changed_kernel[] = "kerncap_changed";  // its name in there

class Changed {
 public:
  // Our kernel reads 16 bytes at a time: what does not begin at such a multiple is not for it.
  [[nodiscard]] static bool can_compare(CUdeviceptr address) noexcept { return address % 16 == 0; }
  // Compiles the kernel for the current context's device, once.
  core::Result<void> prepare() noexcept;
  // A word a chunk, cleared. Kept until the next begin().
  core::Result<void> begin(std::uint64_t chunks, CUstream stream) noexcept;
  // Compares `bytes` at two addresses, of which can_compare() holds; results from word `first_chunk` on.
  core::Result<void> compare(CUdeviceptr before, CUdeviceptr now, std::uint64_t bytes, std::uint64_t chunk_bytes,
                             std::uint64_t first_chunk, CUstream stream) noexcept;
  // The words, once the caller has waited for the stream.
  core::Result<std::vector<std::uint32_t>> fetch() noexcept;
  // Unloads the kernel and frees the words; prepare() may come again.
  core::Result<void> give_back() noexcept;

 private:
  CUmodule m_module = nullptr;
  CUfunction m_kernel = nullptr;
  CUdeviceptr m_flags = 0;
  std::uint64_t m_room = 0;                  // words
  std::uint64_t m_used = 0;
};

}  // namespace kerncap::cuda
