// Plays a ROCr that was built with rocprofiler-register: ROCr itself loads this as a tool, and it registers ROCr's
// own tables with Debian's librocprofiler-register, which hands them to whoever asked for them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <hsa.h>
#include <hsa_api_trace.h>

extern "C" __attribute__((visibility("default"))) std::uint32_t rocprofiler_register_import_hsa() { return 11500; }

extern "C" __attribute__((visibility("default"))) bool OnLoad(HsaApiTable* table, std::uint64_t, std::uint64_t,
                                                              const char* const*) {
  struct Identifier {
    std::uint64_t handle;
  } identifier{};
  using Register = int(const char*, std::uint32_t (*)(), std::uint32_t, void**, std::uint64_t, Identifier*);
  void* library = dlopen("librocprofiler-register.so.0", RTLD_NOW);
  auto* register_table =
      library == nullptr ? nullptr
                         : reinterpret_cast<Register*>(dlsym(library, "rocprofiler_register_library_api_table"));
  if (register_table == nullptr) {
    std::fprintf(stderr, "registrant_tool: no librocprofiler-register\n");
    return true;
  }
  void* tables[] = {table};
  const int status = register_table("hsa", rocprofiler_register_import_hsa, 11500, tables, 1, &identifier);
  std::fprintf(stderr, "registrant_tool: registered with status %d\n", status);
  return true;
}
extern "C" __attribute__((visibility("default"))) void OnUnload() {}
