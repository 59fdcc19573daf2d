// Times of all kernels, by CUPTI's activity records.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

class Profiler {
 public:
  core::Result<void> start() noexcept;
  // Takes the records of what has ended: before the context that it ran in does. Nothing where nothing is recorded.
  void context_ends() noexcept;
  // Takes what CUPTI still has: before the program ends.
  void finish() noexcept;

 private:
  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);
  static void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
                                   std::size_t valid_bytes);
  void flush(std::uint32_t flags) noexcept;
  void take(const CUpti_Activity* record) noexcept;
  std::uint32_t number_of(const char* name) noexcept;

  std::mutex m_mutex;                        // CUPTI hands buffers over from threads of its own
  std::map<std::string, std::uint32_t, std::less<>> m_numbers;
  std::uint64_t m_next_index = 0;
  std::atomic<std::uint32_t> m_under_way{0}; // flushes, and buffers that are being read
};

}  // namespace kerncap::cuda
