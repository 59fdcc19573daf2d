// What the program meets in place of its compilers' functions: kc-capture preloads this library.
//
// What it may not do: write to standard output, let an exception out, or change what a call returns. Programs that open a
// compiler's library (HIP, CuPy, PyTorch) ask dlsym for its functions; others are linked to it and meet the exported ones.
#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/real_dlsym.hpp"
#include "rtc/comgr.hpp"
#include "rtc/hook.hpp"
#include "rtc/nvrtc.hpp"

#define KERNCAP_EXPORT extern "C" __attribute__((visibility("default")))

namespace kerncap::rtc {
namespace {

// What a loaded library is linked to, or defines itself; but not our own definition.
[[nodiscard]] void* definition_in(const char* path, const char* name, bool itself = true) noexcept {
  static const char mark = 0;
  void* const library = ::dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* const found = core::real_dlsym()(library, name);
  ::dlclose(library);
  Dl_info ours{};
  Dl_info its{};
  if (found == nullptr || ::dladdr(&mark, &ours) == 0 || ::dladdr(found, &its) == 0) return nullptr;
  if (ours.dli_fbase == its.dli_fbase || (!itself && std::strcmp(its.dli_fname, path) == 0)) return nullptr;
  return found;
}

[[nodiscard]] std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        if (info->dlpi_name != nullptr && *info->dlpi_name != '\0') {
          static_cast<std::vector<std::string>*>(out)->emplace_back(info->dlpi_name);
        }
        return 0;
      },
      &paths);
  return paths;
}

}  // namespace

void* next_definition(const void* caller, const char* name) noexcept {
  if (void* next = core::real_dlsym()(RTLD_NEXT, name)) return next;
  // What a library that was opened for itself is linked to is not where "the next one" is looked for.
  Dl_info info{};
  if (::dladdr(caller, &info) != 0 && info.dli_fname != nullptr) {
    if (void* found = definition_in(info.dli_fname, name)) return found;
  }
  // PyTorch takes the functions' addresses in one library and calls them in another. A library that is linked to a compiler got ours
  // from us; who opened a compiler did not.
  try {
    const std::vector<std::string> libraries = loaded_libraries();
    for (const bool itself : {false, true}) {
      for (const std::string& path : libraries) {
        if (void* found = definition_in(path.c_str(), name, itself)) return found;
      }
    }
  } catch (const std::bad_alloc&) {
  }
  return nullptr;
}

}  // namespace kerncap::rtc

using namespace kerncap::rtc;

// In a function that is exported: calls ours with the next one. There is none only if the program has none, and asked for none.
#define KERNCAP_PASS_ON(ours, Function, name, none, ...)                                                   \
  auto* const real = reinterpret_cast<Function*>(next_definition(__builtin_return_address(0), name)); \
  return real != nullptr ? ours(real, __VA_ARGS__) : none

KERNCAP_EXPORT ComgrStatus amd_comgr_do_action(std::uint32_t kind, ComgrHandle action, ComgrHandle input,
                                               ComgrHandle result) noexcept {
  KERNCAP_PASS_ON(do_action, DoAction, "amd_comgr_do_action", k_comgr_error, kind, action, input, result);
}

KERNCAP_EXPORT NvrtcResult nvrtcCreateProgram(NvrtcProgram* program, const char* source, const char* name, int header_count,
                                              const char* const* headers, const char* const* header_names) noexcept {
  KERNCAP_PASS_ON(create_program, CreateProgram, "nvrtcCreateProgram", k_nvrtc_internal_error, program, source, name,
                  header_count, headers, header_names);
}

KERNCAP_EXPORT NvrtcResult nvrtcAddNameExpression(NvrtcProgram program, const char* expression) noexcept {
  KERNCAP_PASS_ON(add_name_expression, AddNameExpression, "nvrtcAddNameExpression", k_nvrtc_internal_error, program,
                  expression);
}

KERNCAP_EXPORT NvrtcResult nvrtcCompileProgram(NvrtcProgram program, int option_count, const char* const* options) noexcept {
  KERNCAP_PASS_ON(compile_program, CompileProgram, "nvrtcCompileProgram", k_nvrtc_internal_error, program, option_count,
                  options);
}

KERNCAP_EXPORT NvrtcResult nvrtcDestroyProgram(NvrtcProgram* program) noexcept {
  KERNCAP_PASS_ON(destroy_program, DestroyProgram, "nvrtcDestroyProgram", k_nvrtc_internal_error, program);
}

namespace {

struct Entry {
  const char* name;
  void* exported;
  void* (*wrap)(void* real) noexcept;
};

template <auto Ours>
void* wrap(void* real) noexcept {
  return reinterpret_cast<void*>(Hook<Ours>::wrap(reinterpret_cast<typename Hook<Ours>::Function>(real)));
}

[[nodiscard]] const Entry* entry_of(const char* name) noexcept {
  static const Entry entries[] = {
      {"amd_comgr_do_action", reinterpret_cast<void*>(&amd_comgr_do_action), wrap<&do_action>},
      {"nvrtcCreateProgram", reinterpret_cast<void*>(&nvrtcCreateProgram), wrap<&create_program>},
      {"nvrtcAddNameExpression", reinterpret_cast<void*>(&nvrtcAddNameExpression), wrap<&add_name_expression>},
      {"nvrtcCompileProgram", reinterpret_cast<void*>(&nvrtcCompileProgram), wrap<&compile_program>},
      {"nvrtcDestroyProgram", reinterpret_cast<void*>(&nvrtcDestroyProgram), wrap<&destroy_program>},
  };
  for (const Entry& entry : entries) {
    if (std::strcmp(entry.name, name) == 0) return &entry;
  }
  return nullptr;
}

}  // namespace

KERNCAP_EXPORT KERNCAP_JUMPS_AT_END void* dlsym(void* handle, const char* name) noexcept {
  const auto real = kerncap::core::real_dlsym();
  if (const Entry* entry = handle != RTLD_NEXT ? entry_of(name) : nullptr) {
    void* const found = real(handle, name);
    if (found != entry->exported) return found != nullptr ? entry->wrap(found) : nullptr;
    // A search of all libraries begins with ours. A program that only asks whether there is a compiler is told the truth.
    return next_definition(__builtin_return_address(0), name) != nullptr ? found : nullptr;
  }
  KERNCAP_TAIL_CALL return real(handle, name);
}
