// The program's streams, so that all of them can be waited for without blocking for ever in the driver.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

class Streams {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  void context_created(CUcontext context) noexcept;
  void context_destroyed(CUcontext context) noexcept;
  void created(CUcontext context, CUstream stream) noexcept;
  void destroyed(CUstream stream) noexcept;
  // Numbered as the program made them; 0 is the default stream.
  [[nodiscard]] std::uint32_t index_of(CUstream stream) const noexcept;
  // Everything that was submitted to the device has ended, by whichever of its contexts: green contexts share memory.
  // Streams that are being captured into a graph hold no work and are passed over.
  [[nodiscard]] core::Result<void> drain(std::uint32_t device, Deadline deadline) const noexcept;

 private:
  struct Known {
    CUcontext context;
    std::uint32_t index;
  };
  mutable std::mutex m_mutex;
  std::map<CUcontext, std::uint32_t> m_contexts;   // their devices
  std::map<CUstream, Known> m_streams;
  std::uint32_t m_next = 1;
};

// A graph is being recorded on this stream: nothing runs, and most calls would spoil the recording.
[[nodiscard]] bool is_recording(CUstream stream) noexcept;

}  // namespace kerncap::cuda
