// Kernels of executables whose code was refused, known by the addresses that host code launches them by.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace kerncap::softgpu {

class RefusedKernels {
 public:
  // The process's own. Never destroyed: programs launch kernels in static destructors.
  [[nodiscard]] static RefusedKernels& instance();

  // What host code gets for a fat binary that HIP never sees. `why`: a clause on its kernels' code, which follows a semicolon.
  [[nodiscard]] void** refuse_module(std::string why);
  [[nodiscard]] bool is_refused(void* module);

  // A kernel of such a module. `name`: as the code object has it.
  void add(void** module, const void* host, const char* name);

  // What HIP gets in the place of a kernel that is to be launched: nothing for one that was refused, which is told.
  [[nodiscard]] const void* replace(const void* host) noexcept { return m_is_empty.load() || !tell(host) ? host : nullptr; }

 private:
  struct Module {
    void* nothing = nullptr;
    std::string why;
  };
  struct Kernel {
    std::string name;
    const Module* module;
  };

  [[nodiscard]] bool tell(const void* host) noexcept;  // whether it was refused

  std::atomic<bool> m_is_empty{true};
  std::mutex m_mutex;
  std::deque<Module> m_modules;  // host code keeps their addresses
  std::map<const void*, Kernel> m_kernels;
};

}  // namespace kerncap::softgpu
