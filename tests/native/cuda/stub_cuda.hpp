// The whole library with no GPU below it. Driver and CUPTI are tables of stubs, which succeed and do nothing where a test does not
// put a function of its own; the program's calls are shown to the library as CUPTI shows them. What a stub answers is what the
// documentation says or what was seen on a GPU once: that a real driver does so is shown by tests/device alone.
// A test is one source file, and includes this once.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "../check.hpp"
#include "cuda/api.hpp"
#include "cuda/callbacks.hpp"
#include "cuda/tool.hpp"
#include "stub_collector.hpp"

namespace kerncap::cuda {

inline Tool* g_tool = nullptr;
Tool* tool() noexcept { return g_tool; }
inline std::vector<std::string> g_warnings;
void warn(std::string_view text) noexcept { g_warnings.emplace_back(text); }
const char k_changed_ptx[] = "";

}  // namespace kerncap::cuda

namespace kerncap::test {

using namespace kerncap::cuda;

// How often something with these words was said since g_warnings was cleared.
inline std::ptrdiff_t times_warned(std::string_view words) {
  return std::count_if(g_warnings.begin(), g_warnings.end(), [words](const std::string& text) { return text.find(words) != std::string::npos; });
}

inline CUpti_CallbackFunc g_callback = nullptr;
inline void* g_subscribed_with = nullptr;
inline const auto k_context = reinterpret_cast<CUcontext>(0x1000);

inline Driver& driver_stub() { return const_cast<Driver&>(driver()); }

template <typename Function>
struct NoOp;
template <typename Status, typename... Arguments>
struct NoOp<Status (*)(Arguments...)> {
  static Status call(Arguments...) { return {}; }
};

inline void fill_tables() {
  Driver& table = driver_stub();
  auto& cupti_table = const_cast<Cupti&>(cupti());
#define KC_DRIVER(name) table.name = NoOp<decltype(table.name)>::call;
#define KC_NEWER(name) KC_DRIVER(name)
#define KC_CUPTI(name) cupti_table.name = NoOp<decltype(cupti_table.name)>::call;
#include "cuda/api.def"
#undef KC_DRIVER
#undef KC_NEWER
#undef KC_CUPTI
  constexpr auto k_name = [](CUresult, const char** text) {
    *text = "an error";
    return CUDA_SUCCESS;
  };
  table.cuGetErrorName = k_name;
  table.cuGetErrorString = k_name;
  table.cuFuncGetParamInfo = [](CUfunction, std::size_t, std::size_t*, std::size_t*) { return CUDA_ERROR_INVALID_VALUE; };
  table.cuCtxGetCurrent = [](CUcontext* context) {
    *context = k_context;
    return CUDA_SUCCESS;
  };
  cupti_table.cuptiSubscribe = [](CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void* with) {
    g_callback = callback;
    g_subscribed_with = with;
    return CUPTI_SUCCESS;
  };
}

inline Collector& start_library(Collector& collector) {
  fill_tables();
  capture::Channel* channel = collector.connect();
  if (channel == nullptr) std::abort();
  g_tool = new Tool(*make_own_process(), *channel);
  if (!subscribe(channel->mode())) std::abort();
  g_tool->own.enabled.store(true);
  return collector;
}

inline Collector& start_library(const capture::Rule& rule, std::uint32_t wait_ms = 5000, std::uint32_t flags = 0) {
  return start_library(Collector::start(rule, wait_ms, flags));
}

// One driver call of the program's.
class Call {
 public:
  Call(CUpti_CallbackId id, const void* parameters, const char* symbol = nullptr) : m_id(id) {
    m_data.functionParams = parameters;
    m_data.functionReturnValue = &m_status;
    m_data.symbolName = symbol;
    m_data.context = k_context;
    m_data.correlationData = &m_kept;
  }
  void enter() { show(CUPTI_API_ENTER); }
  void leave(CUresult status = CUDA_SUCCESS) {
    m_status = status;
    show(CUPTI_API_EXIT);
  }
  void in(CUcontext context) { m_data.context = context; }

 private:
  void show(CUpti_ApiCallbackSite site) {
    m_data.callbackSite = site;
    g_callback(g_subscribed_with, CUPTI_CB_DOMAIN_DRIVER_API, m_id, &m_data);
  }

  CUpti_CallbackId m_id;
  CUresult m_status = CUDA_SUCCESS;
  std::uint64_t m_kept = 0xDEADBEEF;   // CUPTI promises nothing of it at the entry
  CUpti_CallbackData m_data{};
};

class Launch {
 public:
  explicit Launch(CUfunction function, unsigned grid_x = 1, CUstream stream = nullptr, const char* symbol = "add")
      : m_call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &m_parameters, symbol) {
    m_parameters.f = function;
    m_parameters.hStream = stream;
    m_parameters.gridDimX = grid_x;
    m_parameters.gridDimY = m_parameters.gridDimZ = 1;
    m_parameters.blockDimX = m_parameters.blockDimY = m_parameters.blockDimZ = 1;
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  void in(CUcontext context) { m_call.in(context); }
  void enter() { m_call.enter(); }
  void leave(CUresult status = CUDA_SUCCESS) { m_call.leave(status); }
  void run(CUresult status = CUDA_SUCCESS) {
    enter();
    leave(status);
  }

 private:
  cuLaunchKernel_params m_parameters{};
  Call m_call;
};

inline void show_module(CUpti_CallbackId what, std::uint32_t id, std::string& cubin, CUcontext context) {
  CUpti_ModuleResourceData module{};
  module.moduleId = id;
  module.cubinSize = cubin.size();
  module.pCubin = cubin.data();
  CUpti_ResourceData data{};
  data.context = context;
  data.resourceDescriptor = &module;
  g_callback(g_subscribed_with, CUPTI_CB_DOMAIN_RESOURCE, what, &data);
}

inline void show_resource(CUpti_CallbackId what, CUcontext context, CUstream stream = nullptr) {
  CUpti_ResourceData data{};
  data.context = context;
  data.resourceHandle.stream = stream;
  g_callback(g_subscribed_with, CUPTI_CB_DOMAIN_RESOURCE, what, &data);
}

// A page of memory that lies at `home` and is mapped by hand, with rights for the device `guest`.
inline int* mapped(const CUmemLocation& home, CUdevice guest) {
  constexpr std::size_t k_page = 4096;
  static CUmemGenericAllocationHandle s_piece = 70;
  auto* words = static_cast<int*>(std::aligned_alloc(k_page, k_page));
  std::memset(words, 0, k_page);
  const auto address = reinterpret_cast<CUdeviceptr>(words);
  CUmemGenericAllocationHandle piece = ++s_piece;
  CUmemAllocationProp what{};
  what.location = home;
  cuMemCreate_params create{&piece, k_page, &what, 0};
  cuMemMap_params map{address, k_page, 0, piece, 0};
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {guest}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  cuMemSetAccess_params rights{address, k_page, &access, 1};
  const std::pair<CUpti_CallbackId, const void*> calls[] = {{CUPTI_DRIVER_TRACE_CBID_cuMemCreate, &create},
                                                            {CUPTI_DRIVER_TRACE_CBID_cuMemMap, &map},
                                                            {CUPTI_DRIVER_TRACE_CBID_cuMemSetAccess, &rights}};
  for (const auto& [id, parameters] : calls) {
    Call call(id, parameters);
    call.enter();
    call.leave();
  }
  return words;
}

template <typename Handle>
Handle handle(std::uintptr_t number) { return reinterpret_cast<Handle>(number); }

inline void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

inline CUresult CUDAAPI compare(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void** parameters,
                         void**) {
  const auto value = [&](int i) { return *static_cast<const std::uint64_t*>(parameters[i]); };
  const auto* before = static_cast<const std::byte*>(pointer(value(0)));
  const auto* now = static_cast<const std::byte*>(pointer(value(1)));
  CHECK(value(0) % 16 == 0 && value(1) % 16 == 0);
  auto* flags = static_cast<std::uint32_t*>(pointer(value(4)));
  for (std::uint64_t at = 0; at < value(2); at += value(3)) {
    if (std::memcmp(before + at, now + at, std::min(value(3), value(2) - at)) != 0) flags[at / value(3)] = 1;
  }
  return CUDA_SUCCESS;
}

// To the driver all memory is the host's; our kernel, which finds chunks that changed, is done by the processor.
inline void use_host_memory() {
  Driver& table = driver_stub();
  table.cuMemAlloc_v2 = [](CUdeviceptr* made, std::size_t bytes) {
    *made = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    return CUDA_SUCCESS;
  };
  table.cuMemsetD8Async = [](CUdeviceptr at, unsigned char value, std::size_t bytes, CUstream) {
    std::memset(pointer(at), value, bytes);
    return CUDA_SUCCESS;
  };
  table.cuMemcpyAsync = [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
    std::memcpy(pointer(to), pointer(from), bytes);
    return CUDA_SUCCESS;
  };
  table.cuMemcpyDtoH_v2 = [](void* to, CUdeviceptr from, std::size_t bytes) {
    std::memcpy(to, pointer(from), bytes);
    return CUDA_SUCCESS;
  };
  table.cuModuleGetFunction = [](CUfunction* made, CUmodule, const char*) {
    *made = handle<CUfunction>(0x7000);
    return CUDA_SUCCESS;
  };
  table.cuLaunchKernel = compare;
}

// A device that reaches ordinary memory by itself: all but the pages that the driver is said to know.
inline std::set<std::uint64_t> g_known_pages;
inline void reach_ordinary_memory() {
  Driver& table = driver_stub();
  table.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS ? 1 : 0;
    return CUDA_SUCCESS;
  };
  table.cuPointerGetAttribute = [](void* value, CUpointer_attribute, CUdeviceptr address) {
    if (!g_known_pages.contains(address / 4096)) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<CUmemorytype*>(value) = CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
  };
}

// The program uses a second GPU from here on.
inline const auto k_context_of_second = reinterpret_cast<CUcontext>(0x1800);
inline void use_second_device() {
  const_cast<Cupti&>(cupti()).cuptiGetDeviceId = [](CUcontext context, std::uint32_t* device) {
    *device = context == k_context_of_second ? 1 : 0;
    return CUPTI_SUCCESS;
  };
  show_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, k_context_of_second);
}
inline void leave_second_device() { show_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, k_context_of_second); }

// The driver loads a cubin, in the midst of a call of this thread's. Numbered from 1, as the library numbers them.
inline std::uint32_t load_cubin(std::string& cubin, CUcontext context = k_context) {
  static std::uint32_t s_modules = 0;
  show_module(CUPTI_CBID_RESOURCE_MODULE_LOADED, ++s_modules, cubin, context);
  return s_modules;
}
inline void unload_cubin(std::uint32_t number) {
  std::string none;
  show_module(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, number, none, k_context);
}

inline std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace kerncap::test
