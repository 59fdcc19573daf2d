// Launches through the HIP runtime instead of an AQL packet of our own.
//
// HIP fills all hidden arguments itself, and serves what kernels ask of the host: printf, assert, a heap that grows.
// Profilers that follow HIP see such a launch. It is opened at run time: building needs nothing of HIP.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "replay/driver.hpp"

namespace kerncap::hsa {

class HipLauncher {
 public:
  // Starts HIP on a device, numbered as ROCr lists GPUs. Fails where there is no HIP runtime.
  [[nodiscard]] static core::Result<std::unique_ptr<HipLauncher>> start(std::uint32_t device);

  // A kernel of a code object. The bytes stay the caller's, until the module is unloaded.
  struct Module {
    void* module = nullptr;
    void* function = nullptr;
  };
  [[nodiscard]] core::Result<Module> load(std::span<const std::byte> file, const std::string& symbol);
  void unload(const Module& module) noexcept;

  // Runs it and waits, until `faulted`. Of `launch.kernarg` only the explicit arguments count.
  [[nodiscard]] core::Result<replay::Timing> launch(const Module& module, const replay::Plan& plan,
                                                    const replay::Launch& launch, const std::function<bool()>& faulted);

 private:
  struct Functions {
#define KERNCAP_HIP(function, ...) std::add_pointer_t<__VA_ARGS__> function = nullptr;
#include "hsa/driver/hip_runtime.def"
#undef KERNCAP_HIP
  };
  HipLauncher() = default;
  [[nodiscard]] int start_kernel(void* function, const replay::Launch& launch);
  [[nodiscard]] int start_cooperative_kernel(void* function, const replay::Launch& launch,
                                             const std::vector<std::uint64_t>& arguments);
  [[nodiscard]] int wait(const std::function<bool()>& faulted);
  [[nodiscard]] core::Error error(const std::string& what, int code) const;

  Functions m_hip;
  void* m_stream = nullptr;
  void* m_start = nullptr;
  void* m_stop = nullptr;
};

}  // namespace kerncap::hsa
