// Programs that open HIP or ROCr themselves (ctypes, Triton) ask it for its functions, and would not meet ours. What a preload may
// not do: see libc_hooks.cpp.
#include <dlfcn.h>

#include <cstring>

#include "core/real_dlsym.hpp"
#include "softgpu/preload/image_hooks.hpp"

namespace kerncap::softgpu {
namespace {

struct Hook {
  const char* name;
  void* ours;
};

template <typename Function>
[[nodiscard]] Hook hook(const char* name, Function& ours) noexcept {
  return {name, reinterpret_cast<void*>(&ours)};
}

[[nodiscard]] void* hook_of(const char* name) noexcept {
#define KERNCAP_HOOK(function) hook(#function, function)
  static const Hook hooks[] = {
      KERNCAP_HOOK(hsa_code_object_reader_create_from_memory), KERNCAP_HOOK(hsa_code_object_reader_create_from_file),
      KERNCAP_HOOK(hipModuleLoad), KERNCAP_HOOK(hipModuleLoadData), KERNCAP_HOOK(hipModuleLoadDataEx),
      KERNCAP_HOOK(hipModuleLoadFatBinary), KERNCAP_HOOK(hipLibraryLoadData), KERNCAP_HOOK(hipLibraryLoadFromFile),
      KERNCAP_HOOK(__hipRegisterFatBinary), KERNCAP_HOOK(__hipUnregisterFatBinary), KERNCAP_HOOK(__hipRegisterFunction),
      KERNCAP_HOOK(__hipRegisterVar), KERNCAP_HOOK(__hipRegisterManagedVar), KERNCAP_HOOK(__hipRegisterSurface),
      KERNCAP_HOOK(__hipRegisterTexture), KERNCAP_HOOK(hipLaunchKernel), KERNCAP_HOOK(hipLaunchKernel_spt),
      KERNCAP_HOOK(hipExtLaunchKernel), KERNCAP_HOOK(hipLaunchKernelExC), KERNCAP_HOOK(hipGraphAddKernelNode),
      KERNCAP_HOOK(hipGraphKernelNodeSetParams), KERNCAP_HOOK(hipGraphExecKernelNodeSetParams), KERNCAP_HOOK(hipGraphAddNode),
      KERNCAP_HOOK(hipGraphNodeSetParams), KERNCAP_HOOK(hipGraphExecNodeSetParams),
  };
#undef KERNCAP_HOOK
  for (const Hook& candidate : hooks) {
    if (std::strcmp(candidate.name, name) == 0) return candidate.ours;
  }
  return nullptr;
}

}  // namespace

}  // namespace kerncap::softgpu

extern "C" KERNCAP_JUMPS_AT_END __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  using namespace kerncap::softgpu;
  const auto real = kerncap::core::real_dlsym();
  void* ours = handle != RTLD_NEXT && handle != RTLD_DEFAULT ? hook_of(name) : nullptr;
  if (ours != nullptr) return real(handle, name) != nullptr ? ours : nullptr;
  KERNCAP_TAIL_CALL return real(handle, name);
}
