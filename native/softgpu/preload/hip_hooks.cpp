// HIP's ways in for images that a program loads: modules, and libraries since ROCm 7.2. HIP reads an image itself before it asks
// ROCr for anything, and believes all of it; so it is looked over first. What a preload may not do: see libc_hooks.cpp.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>

#include "softgpu/device/image_check.hpp"
#include "softgpu/device/refusals.hpp"
#include "softgpu/preload/image_hooks.hpp"

#define KERNCAP_EXPORT __attribute__((visibility("default")))

namespace {

using namespace kerncap::softgpu;

constexpr int k_invalid_image = 200;  // hipError_t

// Whether HIP may have it.
[[nodiscard]] bool may_pass(ImageBytes image, const std::string& door, const std::string& what) {
  const auto target = target_of_process();
  if (!target) return true;
  const ImageVerdict verdict = judge_image(image, *target);
  if (!verdict.damage.empty()) {
    tell_refusal(door + " refused " + what + ": " + verdict.damage);
  } else if (!verdict.is_for_target) {  // HIP has an error for it, which does not say so
    tell_refusal(door + ": " + what + " is not for " + std::string(name(*target)) + "; there is code for: " + verdict.gpu_entries);
  }
  return verdict.damage.empty();
}

[[nodiscard]] bool may_pass_file(const char* path, const char* door) {
  const int file = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  struct stat status {};
  bool passes = true;  // HIP has an answer for what cannot be read at all
  if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    const auto size_bytes = static_cast<std::size_t>(status.st_size);
    void* content = mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (content != MAP_FAILED) {
      passes = may_pass(ImageBytes({static_cast<const std::byte*>(content), size_bytes}), door, path);
      munmap(content, size_bytes);
    }
  }
  if (file >= 0) close(file);
  return passes;
}

// `caller`: an address in whoever asks.
[[nodiscard]] bool may_pass_memory(const void* image, const char* door, const void* caller) {
  if (image == nullptr) return true;
  const std::string file = file_of(caller);
  return may_pass(ImageBytes::unknown(image, false), door, file.empty() ? "an image in memory" : "an image in memory of " + file);
}

}  // namespace

KERNCAP_EXPORT int hipModuleLoad(void** module, const char* path) noexcept {
  const auto real = hip_function<hipModuleLoad>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return may_pass_file(path, __func__) ? real(module, path) : k_invalid_image;
}

KERNCAP_EXPORT int hipModuleLoadData(void** module, const void* image) noexcept {
  const auto real = hip_function<hipModuleLoadData>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return may_pass_memory(image, __func__, __builtin_return_address(0)) ? real(module, image) : k_invalid_image;
}

KERNCAP_EXPORT int hipModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) noexcept {
  const auto real = hip_function<hipModuleLoadDataEx>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return may_pass_memory(image, __func__, __builtin_return_address(0)) ? real(module, image, count, options, values) : k_invalid_image;
}

KERNCAP_EXPORT int hipModuleLoadFatBinary(void** module, const void* image) noexcept {
  const auto real = hip_function<hipModuleLoadFatBinary>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  return may_pass_memory(image, __func__, __builtin_return_address(0)) ? real(module, image) : k_invalid_image;
}

KERNCAP_EXPORT int hipLibraryLoadData(void** library, const void* image, int* jit_options, void** jit_values, unsigned jit_count,
                                      int* options, void** values, unsigned count) noexcept {
  const auto real = hip_function<hipLibraryLoadData>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  if (!may_pass_memory(image, __func__, __builtin_return_address(0))) return k_invalid_image;
  return real(library, image, jit_options, jit_values, jit_count, options, values, count);
}

KERNCAP_EXPORT int hipLibraryLoadFromFile(void** library, const char* path, int* jit_options, void** jit_values, unsigned jit_count,
                                          int* options, void** values, unsigned count) noexcept {
  const auto real = hip_function<hipLibraryLoadFromFile>(__func__);
  if (real == nullptr) return k_hip_not_initialized;
  if (!may_pass_file(path, __func__)) return k_invalid_image;
  return real(library, path, jit_options, jit_values, jit_count, options, values, count);
}
