// The cubins that the program has loaded, and which kernel a function handle stands for.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/cuda_headers.hpp"
#include "cuda/function_table.hpp"
#include "cuda/module_match.hpp"

namespace kerncap::cuda {

class Modules {
 public:
  // CUPTI's resource callback. The cubin is valid during the call only. Makes no driver call: the driver may hold
  // locks of its own there.
  void loaded(CUcontext context, std::uint32_t cupti_id, std::span<const std::byte> cubin) noexcept;
  void unloaded(std::uint32_t cupti_id) noexcept;
  // All of a context that is going.
  void forget(CUcontext context) noexcept;
  // Around a call that is about one module, or a question of ours. What this thread loads in between is that module's cubin: libraries
  // are loaded by and by, by whichever call first wants a part of them.
  static void begin_call() noexcept;
  [[nodiscard]] static bool has_loaded() noexcept;
  void end_call(CUmodule handle) noexcept;

  // The program asked for a variable of this module: kernels may be given its address though none of its own ever ran.
  void variable_asked_for(CUmodule handle, const char* name) noexcept;

  // For the first launch of a function, or of a CUkernel in a context: which kernel it is. Null when nothing is known of it.
  const Kernel* resolve(CUfunction function, const char* symbol, CUcontext context) noexcept;

  struct Variables {
    std::uint64_t module;
    CUmodule handle;
    std::uint32_t device;
    std::vector<ModuleVariable> variables;
  };
  // Whether a kernel of any module that was ever loaded takes memory from the device's own heap.
  [[nodiscard]] bool uses_heap() const noexcept { return m_uses_heap.load(); }
  // Of a kernel of that name, in whichever module: KernelEffect.
  [[nodiscard]] unsigned effects_of(std::string_view kernel) const noexcept;
  // Modules of a device whose handle is known.
  [[nodiscard]] std::vector<Variables> variables(std::uint32_t device) const;

 private:
  struct Module {
    std::uint64_t number;
    std::uint32_t cupti_id;
    CUcontext context = nullptr;
    std::uint32_t device;
    CUmodule handle = nullptr;
    std::size_t content = 0;               // a hash
    std::map<std::string, const Kernel*, std::less<>> kernels;
    std::vector<ModuleVariable> variables;
  };
  void tell_gone(std::uint64_t module) noexcept;
  [[nodiscard]] bool knows(CUmodule handle) const;
  [[nodiscard]] const Kernel* known_in(CUfunction function, CUcontext context);
  void bind(std::uint64_t number, CUmodule handle);
  // The module that has the handle, or all that have none, of those that `holds` is true of.
  template <typename Holds>
  [[nodiscard]] std::vector<ModuleCandidate> candidates(CUmodule handle, Holds holds) const;

  std::atomic<bool> m_uses_heap{false};
  mutable std::mutex m_mutex;
  std::map<std::uint64_t, Module> m_by_number;
  std::map<std::string, unsigned, std::less<>> m_effects;   // of kernels that have any
  std::map<std::pair<CUfunction, CUcontext>, const Kernel*> m_elsewhere;   // CUkernels in other contexts than that of their first launch
};

}  // namespace kerncap::cuda
