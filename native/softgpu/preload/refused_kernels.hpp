// Kernels of executables whose code was refused, known by the addresses that host code launches them by.
#pragma once

#include <atomic>
#include <mutex>
#include <set>

namespace kerncap::softgpu {

class RefusedKernels {
 public:
  // The process's own. Never destroyed: programs launch kernels in static destructors.
  [[nodiscard]] static RefusedKernels& instance();

  void add(const void* host) {
    const std::lock_guard lock(m_mutex);
    m_kernels.insert(host);
    m_is_empty.store(false);
  }

  // What HIP gets in its place: nothing for one that was refused.
  [[nodiscard]] const void* replace(const void* host) noexcept {
    if (m_is_empty.load()) return host;
    const std::lock_guard lock(m_mutex);
    return m_kernels.contains(host) ? nullptr : host;
  }

 private:
  std::atomic<bool> m_is_empty{true};
  std::mutex m_mutex;
  std::set<const void*> m_kernels;
};

}  // namespace kerncap::softgpu
