// For libraries that stand in front of the C library's dlsym.
#pragma once

#include <dlfcn.h>

// A jump, not a call, to the real dlsym matters: RTLD_NEXT means "after whoever called".
#if __has_cpp_attribute(gnu::musttail)
#define KERNCAP_TAIL_CALL [[gnu::musttail]]
#elif __has_cpp_attribute(clang::musttail)
#define KERNCAP_TAIL_CALL [[clang::musttail]]
#else
#define KERNCAP_TAIL_CALL
#endif
// A compiler without musttail jumps where it optimises, in builds for debugging, too, if it is asked to.
#if !__has_cpp_attribute(gnu::musttail) && !__has_cpp_attribute(clang::musttail)
#define KERNCAP_JUMPS_AT_END [[gnu::optimize("O2")]]
#else
#define KERNCAP_JUMPS_AT_END
#endif

namespace kerncap::core {

using DlsymFunction = void* (*)(void*, const char*) noexcept;

// The one behind the library that asks: the C library's, or that of another library like ours.
[[nodiscard]] inline DlsymFunction real_dlsym() noexcept {
  static const auto real = [] {
    void* found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");  // before it moved into the C library
    // dlvsym sees definitions of that version alone, and those of libraries like ours have none.
    const auto of_c_library = reinterpret_cast<DlsymFunction>(found);
    return reinterpret_cast<DlsymFunction>(of_c_library(RTLD_NEXT, "dlsym"));
  }();
  return real;
}

}  // namespace kerncap::core
