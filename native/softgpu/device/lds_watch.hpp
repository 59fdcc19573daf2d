// What happens besides when a kernel reaches beyond its work-group's LDS. Hardware says nothing of it: a read gives 0, a write is
// dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "softgpu/device/settings.hpp"
#include "softgpu/exec/fault.hpp"
#include "softgpu/memory/address_space.hpp"

namespace kerncap::softgpu {

class LdsWatch {
 public:
  explicit LdsWatch(BeyondLds wanted) noexcept : m_wanted(wanted) {}

  // Dispatch::goes_on_beyond_lds for a kernel; must not outlive this object.
  [[nodiscard]] std::function<bool(const Fault&)> for_kernel(const AddressSpace& space, std::uint64_t descriptor_va);

 private:
  // A line for each instruction of a kernel, the first time.
  void tell(const std::string& kernel, const Fault& fault);

  const BeyondLds m_wanted;
  std::mutex m_mutex;
  std::set<std::pair<std::string, std::uint64_t>> m_told;  // kernel and program counter
};

}  // namespace kerncap::softgpu
