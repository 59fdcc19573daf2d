// Loads HIP when it runs, as Python programs do, and dispatches the target twice. What it prints stays in its buffer until
// it ends. usage: late_runtime CODE_OBJECT normal|close|thread|again
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace {

void* g_hip = nullptr;

// HIP's functions return 0 when all is well.
template <typename... Arguments>
void call(const char* name, Arguments... arguments) {
  auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(g_hip, name));
  const int status = function == nullptr ? -1 : function(arguments...);
  if (status == 0) return;
  std::fprintf(stderr, "%s: %d\n", name, status);
  std::_Exit(1);
}

// Loads HIP and runs the target twice; returns the word that it counts in.
unsigned run(const char* code_object) {
  for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6"}) {
    if (g_hip == nullptr) g_hip = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  void* module = nullptr;
  void* function = nullptr;
  unsigned* word = nullptr;
  unsigned value = 0;
  call("hipModuleLoad", &module, code_object);
  call("hipModuleGetFunction", &function, module, "target");
  call("hipMalloc", &word, sizeof value);
  call("hipMemset", word, 0, sizeof value);
  void* arguments[] = {&word};
  for (int i = 0; i < 2; ++i) {
    call("hipModuleLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, static_cast<void*>(nullptr), arguments,
         static_cast<void**>(nullptr));
  }
  call("hipDeviceSynchronize");
  call("hipMemcpy", &value, word, sizeof value, 2);
  return value;
}

}  // namespace

int main(int, char** argv) {
  const std::string_view how = argv[2];
  std::printf("late_runtime: word %u\n", run(argv[1]));
  if (how == "close") dlclose(g_hip);
  if (how == "thread") std::thread([] { std::exit(0); }).join();
  return 0;
}
