// ROCr's two ways in for code objects. What a preload may not do: see libc_hooks.cpp. A code object that is whole goes on to
// ROCr untouched, and so does everything where there is no software GPU. Declared here, so that no header of ROCr is needed.
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>

#include "softgpu/device/code_object_check.hpp"
#include "softgpu/device/driver.hpp"
#include "softgpu/device/refusals.hpp"
#include "softgpu/preload/image_hooks.hpp"

#define KERNCAP_EXPORT __attribute__((visibility("default")))

namespace {

using namespace kerncap::softgpu;

// hsa_status_t
constexpr int k_invalid_code_object = 0x1010, k_not_initialized = 0x100B;

[[nodiscard]] bool is_whole(std::span<const std::byte> file) {
  if (Driver::existing() == nullptr) return true;
  const std::string damage = damage_of_code_object(file);
  if (!damage.empty()) tell_refusal("code object of " + std::to_string(file.size()) + " bytes refused: " + damage);
  return damage.empty();
}

[[nodiscard]] bool is_whole_file(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0 || status.st_size <= 0) return true;  // ROCr has an answer for these
  const auto size_bytes = static_cast<std::size_t>(status.st_size);
  void* content = mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (content == MAP_FAILED) return true;
  const bool whole = is_whole({static_cast<const std::byte*>(content), size_bytes});
  munmap(content, size_bytes);
  return whole;
}

}  // namespace

KERNCAP_EXPORT int hsa_code_object_reader_create_from_memory(const void* code_object, std::size_t size_bytes, void* reader) noexcept {
  using Function = int (*)(const void*, std::size_t, void*);
  const auto real = library_function<Function>("libhsa-runtime64", "hsa_code_object_reader_create_from_memory");
  if (real == nullptr) return k_not_initialized;
  const bool whole = code_object == nullptr || is_whole({static_cast<const std::byte*>(code_object), size_bytes});
  return whole ? real(code_object, size_bytes, reader) : k_invalid_code_object;
}

KERNCAP_EXPORT int hsa_code_object_reader_create_from_file(int file, void* reader) noexcept {
  using Function = int (*)(int, void*);
  const auto real = library_function<Function>("libhsa-runtime64", "hsa_code_object_reader_create_from_file");
  if (real == nullptr) return k_not_initialized;
  return is_whole_file(file) ? real(file, reader) : k_invalid_code_object;
}
