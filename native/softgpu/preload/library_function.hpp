// Functions of ROCr and HIP that our exported ones stand in front of.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>

#include "core/real_dlsym.hpp"

namespace kerncap::softgpu {

// The file that holds an address of code or data; empty: none that is loaded.
[[nodiscard]] inline std::string file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// The library's own definition. Programs that load HIP with dlopen (ctypes, Triton) keep it and ROCr out of the global scope, where
// "the next one" is looked for, but our definition is found there by HIP all the same: so the library is asked by its name.
template <typename Function>
[[nodiscard]] Function library_function(const char* library_name, const char* name) noexcept {
  struct Search {
    const char* wanted;
    std::string path;
  } search{library_name, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        auto& wanted = *static_cast<Search*>(out);
        if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, wanted.wanted) == nullptr) return 0;
        wanted.path = info->dlpi_name;
        return 1;
      },
      &search);
  void* library = search.path.empty() ? nullptr : dlopen(search.path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  void* found = library != nullptr ? core::real_dlsym()(library, name) : core::real_dlsym()(RTLD_NEXT, name);
  if (library != nullptr) dlclose(library);  // it stays: whoever called us has it
  return reinterpret_cast<Function>(found);
}

}  // namespace kerncap::softgpu
