// Finds ROCr's functions in its shared library.
#include "hsa/driver/runtime.hpp"

#include <dlfcn.h>

namespace kerncap::hsa {

core::Result<Runtime> open_runtime() {
  void* library = ::dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return core::Error{core::ErrorCode::device, std::string("ROCr is not here: ") + ::dlerror()};
  }
  Runtime runtime;
  std::string missing;
#define KERNCAP_RUNTIME(function)                                                                    \
  runtime.function = reinterpret_cast<decltype(runtime.function)>(::dlsym(library, #function));      \
  if (runtime.function == nullptr) missing += " " #function;
#include "hsa/driver/runtime.def"
#undef KERNCAP_RUNTIME
  if (!missing.empty()) {
    return core::Error{core::ErrorCode::device, "this ROCr is too old: it has no" + missing};
  }
  return runtime;
}

core::Error runtime_error(const Runtime& runtime, const std::string& what, hsa_status_t status) {
  const char* text = nullptr;
  runtime.hsa_status_string(status, &text);
  std::string message = what + ": " + (text != nullptr ? text : "unknown HSA status") + " (" + std::to_string(status) + ")";
  return {core::ErrorCode::device, std::move(message)};
}

}  // namespace kerncap::hsa
