// The copy engine's side of an SDMA queue: all the packets that ROCr sends. Large copies are done in pieces, one a step,
// so that queues share their runner fairly.
#pragma once

#include <mutex>
#include <string>

#include "softgpu/device/gpu_memory.hpp"
#include "softgpu/device/queue.hpp"

namespace kerncap::softgpu {

class SdmaQueue final : public Queue {
 public:
  SdmaQueue(const QueueContext& context, const QueueSettings& settings);

  [[nodiscard]] Progress step() override;
  void stop() override;

 private:
  // What became of a packet: how many dwords it has, once it is done.
  struct Outcome {
    enum class Kind : std::uint8_t { done, again, waits, failed } kind;
    unsigned dwords = 0;
  };
  static constexpr unsigned k_max_dwords = 16;
  using Words = std::uint32_t[k_max_dwords];

  [[nodiscard]] bool fetch(unsigned dwords, Words& words);
  [[nodiscard]] Outcome execute(const Words& words, std::uint64_t available_dwords);
  [[nodiscard]] Outcome skip_zeros(std::uint64_t available_dwords);
  [[nodiscard]] Outcome copy_linear(const Words& words);
  [[nodiscard]] Outcome copy_rectangle(const Words& words);
  [[nodiscard]] Outcome poll(const Words& words);
  [[nodiscard]] Outcome atomic(const Words& words);
  [[nodiscard]] Outcome fill(const Words& words);
  Outcome checked(bool succeeded, unsigned dwords);
  Outcome unknown(std::uint32_t header, const char* what);

  std::mutex m_mutex;
  GpuMemory m_memory;
  bool m_alive = true;
  std::uint64_t m_read_bytes = 0;  // never wraps; the ring is indexed modulo its size
  std::uint64_t m_progress = 0;    // within the current packet: bytes or rows done
};

}  // namespace kerncap::softgpu
