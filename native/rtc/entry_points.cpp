// What the program meets in place of its compilers' functions: kc-capture preloads this library.
//
// What it may not do: write to standard output, let an exception out, or change what a call returns. Programs that open a
// compiler's library (HIP, CuPy, PyTorch) ask dlsym for its functions; others are linked to it and meet the exported ones.
#include <dlfcn.h>

#include <cstring>

#include "core/real_dlsym.hpp"
#include "rtc/comgr.hpp"
#include "rtc/hook.hpp"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace kerncap::rtc {
namespace {

using ComgrHook = Hook<&do_action>;

[[nodiscard]] bool is_hooked(const char* name) noexcept { return std::strcmp(name, "amd_comgr_do_action") == 0; }

[[nodiscard]] void* wrap(void* real) noexcept {
  return reinterpret_cast<void*>(ComgrHook::wrap(reinterpret_cast<ComgrHook::Function>(real)));
}

}  // namespace

void* next_definition(const void* caller, const char* name) noexcept {
  if (void* next = core::real_dlsym()(RTLD_NEXT, name)) return next;
  // What a library that was opened for itself is linked to is not where "the next one" is looked for.
  Dl_info info{};
  if (::dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return nullptr;
  void* const library = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* const found = core::real_dlsym()(library, name);
  ::dlclose(library);
  return found;
}

}  // namespace kerncap::rtc

KERNCAP_EXPORT kerncap::rtc::ComgrStatus amd_comgr_do_action(std::uint32_t kind, kerncap::rtc::ComgrHandle action,
                                                             kerncap::rtc::ComgrHandle input,
                                                             kerncap::rtc::ComgrHandle result) noexcept {
  using namespace kerncap::rtc;
  auto* const real = reinterpret_cast<DoAction*>(next_definition(__builtin_return_address(0), "amd_comgr_do_action"));
  return real != nullptr ? do_action(real, kind, action, input, result) : k_comgr_error;
}

KERNCAP_EXPORT KERNCAP_JUMPS_AT_END void* dlsym(void* handle, const char* name) noexcept {
  using namespace kerncap;
  const auto real = core::real_dlsym();
  if (handle != RTLD_NEXT && rtc::is_hooked(name)) {
    void* const found = real(handle, name);
    if (found != reinterpret_cast<void*>(&amd_comgr_do_action)) return found != nullptr ? rtc::wrap(found) : nullptr;
    // A search of all libraries begins with ours. A program that only asks whether there is a compiler is told the truth.
    return rtc::next_definition(__builtin_return_address(0), name) != nullptr ? found : nullptr;
  }
  KERNCAP_TAIL_CALL return real(handle, name);
}
