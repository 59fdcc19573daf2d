// nvcc: -shared -Xcompiler -fPIC -I/usr/local/cuda/extras/CUPTI/include
// What CUDA_INJECTION64_PATH may name: writes the attributes of each cuLaunchKernelEx into the file LAUNCH_SPY_OUT, "ID HEX" a line,
// as the driver is given them. LAUNCH_SPY_CUPTI: the path of CUPTI.
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

static void CUPTIAPI write_attributes(void* file, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  if (call->callbackSite != CUPTI_API_ENTER) return;
  const CUlaunchConfig& config = *static_cast<const cuLaunchKernelEx_params*>(call->functionParams)->config;
  auto* out = static_cast<std::FILE*>(file);
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    std::fprintf(out, "%d ", static_cast<int>(config.attrs[i].id));
    for (const char byte : config.attrs[i].value.pad) std::fprintf(out, "%02x", static_cast<unsigned char>(byte));
    std::fputc('\n', out);
  }
  std::fflush(out);
}

extern "C" int InitializeInjection() {
  static bool s_once = false;
  if (s_once) return 1;
  s_once = true;
  void* library = dlopen(std::getenv("LAUNCH_SPY_CUPTI"), RTLD_NOW);
  std::FILE* out = std::fopen(std::getenv("LAUNCH_SPY_OUT"), "w");
  if (library == nullptr || out == nullptr) std::abort();
  const auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(library, "cuptiSubscribe"));
  const auto enable = reinterpret_cast<decltype(&cuptiEnableCallback)>(dlsym(library, "cuptiEnableCallback"));
  CUpti_SubscriberHandle subscriber;
  if (subscribe(&subscriber, write_attributes, out) != CUPTI_SUCCESS) std::abort();
  const auto launch = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx;
  if (enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, launch) != CUPTI_SUCCESS) std::abort();
  return 1;
}
