// Device memory of ours, beside the program's.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

class OwnMemory {
 public:
  // In the current context; 0 where there is not enough.
  [[nodiscard]] CUdeviceptr allocate(std::uint64_t bytes) noexcept;
  // What nothing works on any more.
  [[nodiscard]] CUresult free(CUdeviceptr memory) noexcept;

 private:
  [[nodiscard]] CUdeviceptr map(std::uint64_t bytes) noexcept;

  std::mutex m_mutex;
  std::map<CUdeviceptr, std::uint64_t> m_mapped;   // bytes
};

}  // namespace kerncap::cuda
