// What clang's host code tells HIP before main(), for each translation unit: its fat binary, and the kernels and variables in it. A
// fat binary that is damaged is refused with all that belongs to it, and so is one with nothing for this GPU. A launch of such a
// kernel reaches HIP without a function, which is an error of HIP's in all versions: 7.2 takes the address of a kernel that it does
// not know for a kernel's handle, and would end the program. What a preload may not do: see libc_hooks.cpp.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "softgpu/device/image_check.hpp"
#include "softgpu/device/refusals.hpp"
#include "softgpu/device/report.hpp"
#include "softgpu/device/system_files.hpp"
#include "softgpu/preload/image_hooks.hpp"
#include "softgpu/preload/refused_kernels.hpp"

#define KERNCAP_EXPORT __attribute__((visibility("default")))

namespace {

using namespace kerncap::softgpu;

struct FatBinaryWrapper {
  std::uint32_t magic, version;
  const void* image;
  const void* unused;
};

// Nothing for a fat binary that HIP may have; else what host code gets for it.
[[nodiscard]] void** refused(const FatBinaryWrapper* wrapper) {
  constexpr std::uint32_t k_magic = 0x48495046;
  const auto target = target_of_process();
  if (!target || wrapper == nullptr || wrapper->magic != k_magic || wrapper->image == nullptr) return nullptr;
  const ImageVerdict verdict = judge_image(ImageBytes::unknown(wrapper->image, true), *target);
  std::string file = file_of(wrapper);
  if (file.empty()) file = "this program";
  if (!verdict.damage.empty()) {
    tell_refusal("__hipRegisterFatBinary refused code of " + file + ": " + verdict.damage);
    return RefusedKernels::instance().refuse_module("its code in " + file + " was refused: " + verdict.damage);
  }
  if (verdict.is_for_target) return nullptr;
  const std::string gpu(name(*target)), features(traits(*target).features);
  const std::string why = "not for " + gpu + (features.empty() ? "" : " (" + features + ")");
  const std::string entries = verdict.gpu_entries.empty() ? "no GPU" : verdict.gpu_entries;
  static std::atomic<bool> said{false};  // a library may have hundreds of them
  if (!said.exchange(true)) {
    report("code of %s is %s: its kernels cannot be launched; there is code for: %s "
           "(build it with --offload-arch=%s; KERNCAP_SOFTGPU_TARGET poses as another GPU)",
           file.c_str(), why.c_str(), entries.c_str(), gpu.c_str());
  }
  return RefusedKernels::instance().refuse_module("its code in " + file + " is " + why + "; there is code for: " + entries);
}

}  // namespace

std::optional<Target> kerncap::softgpu::target_of_process() {
  const Settings* settings = process_settings();
  return settings != nullptr ? std::optional(settings->chip->target) : std::nullopt;
}

KERNCAP_EXPORT void** __hipRegisterFatBinary(const void* wrapper) noexcept {
  const auto real = hip_function<__hipRegisterFatBinary>(__func__);
  void** module = refused(static_cast<const FatBinaryWrapper*>(wrapper));
  if (module == nullptr && real == nullptr) module = RefusedKernels::instance().refuse_module("HIP is not loaded");
  return module != nullptr ? module : real(wrapper);
}

KERNCAP_EXPORT void __hipUnregisterFatBinary(void** module) noexcept {
  const auto real = hip_function<__hipUnregisterFatBinary>(__func__);
  if (real != nullptr && !RefusedKernels::instance().is_refused(module)) real(module);
}

KERNCAP_EXPORT void __hipRegisterFunction(void** module, const void* host, char* function, const char* name, unsigned threads, void* thread,
                                          void* block, void* block_size, void* grid_size, int* warp_size) noexcept {
  const auto real = hip_function<__hipRegisterFunction>(__func__);
  if (RefusedKernels::instance().is_refused(module)) {
    RefusedKernels::instance().add(module, host, name);
  } else if (real != nullptr) {
    real(module, host, function, name, threads, thread, block, block_size, grid_size, warp_size);
  }
}

KERNCAP_EXPORT void __hipRegisterVar(void** module, void* host, char* host_name, char* name, int is_external, std::size_t size_bytes,
                                     int is_constant, int is_global) noexcept {
  const auto real = hip_function<__hipRegisterVar>(__func__);
  if (real != nullptr && !RefusedKernels::instance().is_refused(module)) real(module, host, host_name, name, is_external, size_bytes, is_constant, is_global);
}

KERNCAP_EXPORT void __hipRegisterManagedVar(void* module, void** pointer, void* initial, const char* name, std::size_t size_bytes,
                                            unsigned alignment) noexcept {
  const auto real = hip_function<__hipRegisterManagedVar>(__func__);
  if (RefusedKernels::instance().is_refused(module)) {  // the host may still use it
    *pointer = std::malloc(size_bytes);
    if (*pointer != nullptr) std::memcpy(*pointer, initial, size_bytes);
  } else if (real != nullptr) {
    real(module, pointer, initial, name, size_bytes, alignment);
  }
}

KERNCAP_EXPORT void __hipRegisterSurface(void** module, void* host, char* host_name, char* name, int type, int is_external) noexcept {
  const auto real = hip_function<__hipRegisterSurface>(__func__);
  if (real != nullptr && !RefusedKernels::instance().is_refused(module)) real(module, host, host_name, name, type, is_external);
}

KERNCAP_EXPORT void __hipRegisterTexture(void** module, void* host, char* host_name, char* name, int type, int is_normalized,
                                         int is_external) noexcept {
  const auto real = hip_function<__hipRegisterTexture>(__func__);
  if (real != nullptr && !RefusedKernels::instance().is_refused(module)) real(module, host, host_name, name, type, is_normalized, is_external);
}

KERNCAP_EXPORT int hipLaunchKernel(const void* kernel, GridSize grid, GridSize block, void** arguments, std::size_t lds_bytes, void* stream) noexcept {
  const auto real = hip_function<hipLaunchKernel>(__func__);
  return real != nullptr ? real(RefusedKernels::instance().replace(kernel), grid, block, arguments, lds_bytes, stream) : k_hip_not_initialized;
}

KERNCAP_EXPORT int hipLaunchKernel_spt(const void* kernel, GridSize grid, GridSize block, void** arguments, std::size_t lds_bytes, void* stream) noexcept {
  const auto real = hip_function<hipLaunchKernel_spt>(__func__);
  return real != nullptr ? real(RefusedKernels::instance().replace(kernel), grid, block, arguments, lds_bytes, stream) : k_hip_not_initialized;
}

KERNCAP_EXPORT int hipExtLaunchKernel(const void* kernel, GridSize grid, GridSize block, void** arguments, std::size_t lds_bytes, void* stream,
                                      void* start, void* stop, int flags) noexcept {
  const auto real = hip_function<hipExtLaunchKernel>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return real(RefusedKernels::instance().replace(kernel), grid, block, arguments, lds_bytes, stream, start, stop, flags);
}

KERNCAP_EXPORT int hipLaunchKernelExC(const void* launch, const void* kernel, void** arguments) noexcept {
  const auto real = hip_function<hipLaunchKernelExC>(__func__);
  return real != nullptr ? real(launch, RefusedKernels::instance().replace(kernel), arguments) : k_hip_not_initialized;
}
