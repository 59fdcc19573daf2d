#include "softgpu/device/lds_watch.hpp"

#include "softgpu/device/kernel_name.hpp"
#include "softgpu/device/report.hpp"

namespace kerncap::softgpu {

std::function<bool(const Fault&)> LdsWatch::for_kernel(const AddressSpace& space, std::uint64_t descriptor_va) {
  if (m_wanted == BeyondLds::hardware) return {};
  if (m_wanted == BeyondLds::stop) return [](const Fault&) { return false; };
  return [this, kernel = kernel_name(space, descriptor_va)](const Fault& fault) {
    tell(kernel, fault);
    return true;
  };
}

void LdsWatch::tell(const std::string& kernel, const Fault& fault) {
  {
    const std::lock_guard lock(m_mutex);
    if (!m_told.emplace(kernel, fault.pc).second) return;
  }
  report("%s: %s; the kernel goes on", kernel.c_str(), describe(fault).c_str());
}

}  // namespace kerncap::softgpu
