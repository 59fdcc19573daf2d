// The functions that our exported ones stand in front of.
#pragma once

#include <dlfcn.h>

namespace kerncap::softgpu {

// The next definition of a symbol after this library; looked up once at each place of use.
template <typename Function>
[[nodiscard]] Function next_symbol(const char* name) noexcept {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace kerncap::softgpu

// In a function that shadows `name`: a reference to the real one.
#define KERNCAP_REAL(name) \
  static const auto real = ::kerncap::softgpu::next_symbol<decltype(&::name)>(#name)
