// How long a kernel ran by the device's own time stamps, which CUPTI reads. Events, which stand in where CUPTI is not
// there, lie around the launch and count some microseconds of their own.
#pragma once

#include <cstdint>
#include <optional>

namespace kerncap::cuda {

class KernelTimer {
 public:
  // Before the context is made. False: no CUPTI, or another tool has it.
  bool start() noexcept;
  [[nodiscard]] bool is_on() const noexcept { return m_on; }
  // After the launch has ended: how long it took.
  [[nodiscard]] std::optional<std::uint64_t> last_ns() noexcept;

 private:
  bool m_on = false;
};

}  // namespace kerncap::cuda
