#include "softgpu/preload/refused_kernels.hpp"

#include <algorithm>
#include <utility>

#include "softgpu/device/kernel_name.hpp"
#include "softgpu/device/refusals.hpp"

namespace kerncap::softgpu {

RefusedKernels& RefusedKernels::instance() {
  static auto& kernels = *new RefusedKernels;
  return kernels;
}

void** RefusedKernels::refuse_module(std::string why) {
  const std::lock_guard lock(m_mutex);
  return &m_modules.emplace_back(Module{nullptr, std::move(why)}).nothing;
}

bool RefusedKernels::is_refused(void* module) {
  const std::lock_guard lock(m_mutex);
  return std::ranges::any_of(m_modules, [&](const Module& known) { return &known.nothing == module; });
}

void RefusedKernels::add(void** module, const void* host, const char* name) {
  const std::lock_guard lock(m_mutex);
  const auto its = std::ranges::find_if(m_modules, [&](const Module& known) { return &known.nothing == module; });
  m_kernels.insert_or_assign(host, Kernel{name != nullptr ? name : "a kernel without a name", &*its});
  m_is_empty.store(false);
}

bool RefusedKernels::tell(const void* host) noexcept {
  std::string text;
  {
    const std::lock_guard lock(m_mutex);
    const auto found = m_kernels.find(host);
    if (found == m_kernels.end()) return false;
    text = readable_name(found->second.name) + " did not run; " + found->second.module->why;
  }
  tell_refusal(text);
  return true;
}

}  // namespace kerncap::softgpu
