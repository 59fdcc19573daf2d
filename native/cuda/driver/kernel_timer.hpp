// How long a kernel ran by the device's own time stamps, which CUPTI reads. Events, which stand in where CUPTI is not
// there, lie around the launch and count some microseconds of their own.
#pragma once

#include <cstdint>
#include <vector>

namespace kerncap::cuda {

class KernelTimer {
 public:
  // Before the context is made. False: no CUPTI, or another tool has it.
  bool start() noexcept;
  [[nodiscard]] bool is_on() const noexcept { return m_on; }
  struct Time {
    std::uint64_t kernel_ns;
    std::uint64_t behind_ns;                 // from its end until the mark behind it began
  };
  // After all launches have ended: how long each took that was not asked for yet, in order. Each has a mark behind it.
  [[nodiscard]] std::vector<Time> take();

 private:
  bool m_on = false;
};

}  // namespace kerncap::cuda
