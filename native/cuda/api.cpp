// Finds the libraries and their functions.
#include "cuda/api.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>
#include <vector>

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

Driver g_driver;
Cupti g_cupti;

template <typename Function>
bool find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

// The major versions whose callback parameters are those of the headers that we were built with.
constexpr const char* k_cupti_names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};

void* open_cupti(std::string& path) {
  for (const char* name : k_cupti_names) {
    if (void* loaded = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return path = name, loaded;
  }
  const char* listed = std::getenv("KERNCAP_CUPTI");
  std::string_view rest = listed == nullptr ? "" : listed;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string candidate(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 1));
    if (candidate.empty()) continue;
    if (void* library = ::dlopen(candidate.c_str(), RTLD_NOW)) return path = candidate, library;
  }
  for (const char* name : k_cupti_names) {
    if (void* library = ::dlopen(name, RTLD_NOW)) return path = name, library;
  }
  return nullptr;
}

}  // namespace

const Driver& driver() noexcept { return g_driver; }
const Cupti& cupti() noexcept { return g_cupti; }

Result<void> load_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return Error{ErrorCode::device, std::string("no NVIDIA driver: ") + ::dlerror()};
  std::string missing;
#define KC_DRIVER(name) \
  if (!find(library, #name, g_driver.name)) missing += " " #name;
#define KC_NEWER(name) find(library, #name, g_driver.name);
#define KC_CUPTI(name)
#include "cuda/api.def"
#undef KC_DRIVER
#undef KC_NEWER
#undef KC_CUPTI
  if (!missing.empty()) return Error{ErrorCode::unsupported, "the NVIDIA driver is too old: it lacks" + missing};
  return {};
}

Result<void> load_cupti() {
  void* library = open_cupti(g_cupti.path);
  if (library == nullptr) {
    return Error{ErrorCode::device,
                 "CUPTI (libcupti.so.13) was not found: it comes with the CUDA toolkit and as the Python package "
                 "nvidia-cuda-cupti; KERNCAP_CUPTI can name the library"};
  }
  std::string missing;
#define KC_DRIVER(name)
#define KC_NEWER(name)
#define KC_CUPTI(name) \
  if (!find(library, #name, g_cupti.name)) missing += " " #name;
#include "cuda/api.def"
#undef KC_DRIVER
#undef KC_NEWER
#undef KC_CUPTI
  if (!missing.empty()) return Error{ErrorCode::unsupported, g_cupti.path + " is too old: it lacks" + missing};
  return {};
}

int device_attribute(CUdevice device, CUdevice_attribute which) noexcept {
  int value = 0;
  return driver().cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

std::string describe(const std::string& what, CUresult status) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (g_driver.cuGetErrorName == nullptr || g_driver.cuGetErrorName(status, &name) != CUDA_SUCCESS) name = "error";
  if (g_driver.cuGetErrorString == nullptr || g_driver.cuGetErrorString(status, &text) != CUDA_SUCCESS) text = "?";
  return what + ": " + name + " (" + text + ")";
}

Result<void> checked(const std::string& what, CUresult status) {
  if (status == CUDA_SUCCESS) return {};
  const ErrorCode code = status == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::no_space : ErrorCode::device;
  return Error{code, describe(what, status)};
}

}  // namespace kerncap::cuda
