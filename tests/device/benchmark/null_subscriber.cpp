// What the CUDA driver loads into a program by CUDA_INJECTION64_PATH: a subscriber of CUPTI's that is told of launches, and does nothing.
// Below it no tool can get that is told of them. NULL_SUBSCRIBER_CUPTI: paths of CUPTI, between colons; the first that loads is taken.
// NULL_SUBSCRIBER_LAUNCHES: behind so many it leaves, and takes CUPTI away, of a program that launches from one thread.
#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <sstream>
#include <string>

static unsigned long s_left = 0;
static CUpti_SubscriberHandle s_subscriber;
static decltype(&cuptiEnableDomain) s_enable_domain = nullptr;
static decltype(&cuptiFinalize) s_finalize = nullptr;

static void CUPTIAPI nothing(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  if (static_cast<const CUpti_CallbackData*>(data)->callbackSite != CUPTI_API_EXIT || --s_left != 0) return;
  // In the order of kc-capture's own library. If it cannot leave, it is not to be measured as if it had.
  if (s_enable_domain(0, s_subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS || s_finalize() != CUPTI_SUCCESS) std::abort();
}

extern "C" int InitializeInjection(void) {
  static bool s_once = false;
  if (s_once) return 1;
  s_once = true;
  const char* paths = std::getenv("NULL_SUBSCRIBER_CUPTI");
  std::istringstream all(paths == nullptr ? "libcupti.so" : paths);
  void* library = nullptr;
  for (std::string path; library == nullptr && std::getline(all, path, ':');) library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) std::abort();   // else a row would show what it costs to have nothing
  const auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(library, "cuptiSubscribe"));
  const auto enable = reinterpret_cast<decltype(&cuptiEnableCallback)>(dlsym(library, "cuptiEnableCallback"));
  s_enable_domain = reinterpret_cast<decltype(&cuptiEnableDomain)>(dlsym(library, "cuptiEnableDomain"));
  s_finalize = reinterpret_cast<decltype(&cuptiFinalize)>(dlsym(library, "cuptiFinalize"));
  const char* launches = std::getenv("NULL_SUBSCRIBER_LAUNCHES");
  if (launches == nullptr) std::abort();
  s_left = std::strtoul(launches, nullptr, 10);
  if (subscribe(&s_subscriber, nothing, nullptr) != CUPTI_SUCCESS) std::abort();
  for (const CUpti_CallbackId id : {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx}) {
    if (enable(1, s_subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id) != CUPTI_SUCCESS) std::abort();
  }
  return 1;
}
