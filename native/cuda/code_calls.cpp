// All is looked at when the call has returned: the driver has accepted it then, and the program's memory still holds it.
#include "cuda/code_calls.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>

#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

constexpr CUpti_CallbackId k_calls[] = {
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoad,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx,
    CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary,
    CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction,
    CUPTI_DRIVER_TRACE_CBID_cuModuleGetGlobal_v2,
    CUPTI_DRIVER_TRACE_CBID_cuModuleUnload,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadFromFile,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryUnload,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryGetKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryEnumerateKernels,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryGetModule,
    CUPTI_DRIVER_TRACE_CBID_cuLibraryGetGlobal,
    CUPTI_DRIVER_TRACE_CBID_cuKernelGetFunction,
    CUPTI_DRIVER_TRACE_CBID_cuLinkAddData,
    CUPTI_DRIVER_TRACE_CBID_cuLinkAddData_v2,
    CUPTI_DRIVER_TRACE_CBID_cuLinkAddFile,
    CUPTI_DRIVER_TRACE_CBID_cuLinkAddFile_v2,
    CUPTI_DRIVER_TRACE_CBID_cuLinkComplete,
    CUPTI_DRIVER_TRACE_CBID_cuLinkDestroy,
};
constexpr std::size_t k_most_bytes = 16u << 20;   // of one image

// 90 for compute capability 9.0, of the GPU whose context is current.
unsigned capability() noexcept {
  const Inside inside;
  CUdevice device = 0;
  if (driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) device = 0;
  const int major = device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  const int minor = device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return static_cast<unsigned>(10 * major + minor);
}

// A file's bytes and a zero byte, or none where it is too long.
Bytes read_file(const char* path) try {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<std::int64_t>(file.tellg());
  if (!file || size <= 0 || size > static_cast<std::int64_t>(k_most_bytes)) return {};
  Bytes bytes(static_cast<std::size_t>(size) + 1);
  file.seekg(0).read(reinterpret_cast<char*>(bytes.data()), size);
  return bytes;
} catch (const std::bad_alloc&) {
  return {};
}

Image look_at_file(const Bytes& file) noexcept { return file.empty() ? Image{} : look_at(file.data(), file.size() - 1); }

template <typename Parameters>
const Parameters& as(const CUpti_CallbackData& data) noexcept {
  return *static_cast<const Parameters*>(data.functionParams);
}

bool takes_ptx(CUjitInputType type) noexcept { return type == CU_JIT_INPUT_PTX || type == CU_JIT_INPUT_FATBINARY; }

// Handles that go: before they do, as another call may be given the same at once.
void track_end(Images& images, CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuModuleUnload:
      return images.module_unloaded(as<cuModuleUnload_params>(data).hmod);
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryUnload:
      return images.library_unloaded(as<cuLibraryUnload_params>(data).library);
    case CUPTI_DRIVER_TRACE_CBID_cuLinkDestroy:
      return images.link_destroyed(as<cuLinkDestroy_params>(data).state);
    default:
      return;
  }
}

void track_image(Images& images, CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoad: {
      const auto& made = as<cuModuleLoad_params>(data);
      const Bytes file = read_file(made.fname);
      return images.module_loaded(*made.module, look_at_file(file), capability());
    }
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary: {
      // All three begin with the module's address, and the image.
      const auto& made = as<cuModuleLoadData_params>(data);
      return images.module_loaded(*made.module, look_at(made.image, k_most_bytes), capability());
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData: {
      const auto& made = as<cuLibraryLoadData_params>(data);
      return images.library_loaded(*made.library, look_at(made.code, k_most_bytes), capability());
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadFromFile: {
      const auto& made = as<cuLibraryLoadFromFile_params>(data);
      const Bytes file = read_file(made.fileName);
      return images.library_loaded(*made.library, look_at_file(file), capability());
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryGetKernel: {
      const auto& asked = as<cuLibraryGetKernel_params>(data);
      return images.library_part(asked.library, *asked.pKernel);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryEnumerateKernels: {
      const auto& asked = as<cuLibraryEnumerateKernels_params>(data);
      for (unsigned i = 0; i < asked.numKernels; ++i) images.library_part(asked.lib, asked.kernels[i]);
      return;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryGetModule: {
      const auto& asked = as<cuLibraryGetModule_params>(data);
      return images.library_part(asked.library, *asked.pMod);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuKernelGetFunction: {
      const auto& asked = as<cuKernelGetFunction_params>(data);
      return images.function_of(asked.kernel, *asked.pFunc);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLinkAddData:
    case CUPTI_DRIVER_TRACE_CBID_cuLinkAddData_v2: {
      const auto& added = as<cuLinkAddData_v2_params>(data);
      if (added.size > k_most_bytes) return;
      Image input;
      if (added.type == CU_JIT_INPUT_FATBINARY) input = look_at(added.data, added.size);
      if (added.type == CU_JIT_INPUT_PTX) {  // that may do without a zero byte here
        const auto* text = static_cast<const std::byte*>(added.data);
        input = {Image::Form::ptx, {text, ::strnlen(static_cast<const char*>(added.data), added.size)}};
      }
      return images.link_input(added.state, input, capability());
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLinkAddFile:
    case CUPTI_DRIVER_TRACE_CBID_cuLinkAddFile_v2: {
      const auto& added = as<cuLinkAddFile_v2_params>(data);
      const Bytes file = takes_ptx(added.type) ? read_file(added.path) : Bytes();
      return images.link_input(added.state, look_at_file(file), capability());
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLinkComplete: {
      const auto& made = as<cuLinkComplete_params>(data);
      if (made.cubinOut == nullptr || made.sizeOut == nullptr) return;
      return images.linked(made.state, {static_cast<const std::byte*>(*made.cubinOut), *made.sizeOut});
    }
    default:
      return;
  }
}

CUmodule module_of(CUlibrary library) noexcept {
  const Inside inside;
  const RelaxedMode relaxed;
  CUmodule handle = nullptr;
  if (driver().cuLibraryGetModule == nullptr || driver().cuLibraryGetModule(&handle, library) != CUDA_SUCCESS) return nullptr;
  return handle;
}

CUmodule module_of(CUfunction function) noexcept {
  const Inside inside;
  const RelaxedMode relaxed;
  CUmodule handle = nullptr;
  return driver().cuFuncGetModule(&handle, function) == CUDA_SUCCESS ? handle : nullptr;
}

void variable_asked_for(Modules& modules, CUmodule handle, const char* name) noexcept {
  const Inside inside;
  const RelaxedMode relaxed;
  modules.end_call(handle);
  modules.variable_asked_for(handle, name);
}

// Which module the call was about: what it has loaded is that module's. The driver is asked only where there is something to name.
void track_module(Modules& modules, CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoad:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx:
    case CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary:
      // The module's address is the first parameter of all that load one.
      return modules.end_call(*as<cuModuleLoadData_params>(data).module);
    case CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction:
      return modules.end_call(as<cuModuleGetFunction_params>(data).hmod);
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryGetModule:
      return modules.end_call(*as<cuLibraryGetModule_params>(data).pMod);
    case CUPTI_DRIVER_TRACE_CBID_cuModuleGetGlobal_v2: {
      const auto& asked = as<cuModuleGetGlobal_v2_params>(data);
      return variable_asked_for(modules, asked.hmod, asked.name);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryGetGlobal: {
      const auto& asked = as<cuLibraryGetGlobal_params>(data);
      return variable_asked_for(modules, module_of(asked.library), asked.name);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData:
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadFromFile:
      // The library's address is the first parameter of both.
      if (Modules::has_loaded()) modules.end_call(module_of(*as<cuLibraryLoadData_params>(data).library));
      return;
    case CUPTI_DRIVER_TRACE_CBID_cuLibraryGetKernel:
      if (Modules::has_loaded()) modules.end_call(module_of(as<cuLibraryGetKernel_params>(data).library));
      return;
    case CUPTI_DRIVER_TRACE_CBID_cuKernelGetFunction:
      if (Modules::has_loaded()) modules.end_call(module_of(*as<cuKernelGetFunction_params>(data).pFunc));
      return;
    default:
      return;
  }
}

}  // namespace

std::span<const CUpti_CallbackId> code_calls() noexcept { return k_calls; }

void track_code_call(CUpti_CallbackId call, const CUpti_CallbackData& data, bool with_images) noexcept {
  if (std::find(std::begin(k_calls), std::end(k_calls), call) == std::end(k_calls)) return;
  Tool& state = *tool();
  if (data.callbackSite == CUPTI_API_ENTER) {
    Modules::begin_call();
    if (with_images) track_end(state.images, call, data);
  } else if (*static_cast<const CUresult*>(data.functionReturnValue) == CUDA_SUCCESS) {
    if (with_images) track_image(state.images, call, data);
    track_module(state.modules, call, data);
  }
}

}  // namespace kerncap::cuda
