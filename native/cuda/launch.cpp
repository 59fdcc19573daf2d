// Reads launches out of the parameters of driver calls.
#include "cuda/launch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/api.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;

// The per-thread variants take 0 for the thread's own stream.
CUstream stream_of(CUstream stream, bool per_thread) noexcept {
  return per_thread && stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

template <typename Parameters>
void read_call(const Parameters& from, LaunchCall& launch) noexcept {
  launch.function = from.f;
  read_shape(from, launch);
  launch.parameters = from.kernelParams;
}

// What a program may have raised for its kernels; a launch fails, or a kernel faults, where it is less.
constexpr std::pair<const char*, CUlimit> k_limits[] = {
    {"stack_limit", CU_LIMIT_STACK_SIZE},
    {"printf_limit", CU_LIMIT_PRINTF_FIFO_SIZE},
    {"persisting_l2_limit", CU_LIMIT_PERSISTING_L2_CACHE_SIZE},
};

int attribute_of(CUfunction function, CUfunction_attribute attribute) noexcept {
  int value = 0;
  if (driver().cuFuncGetAttribute(&value, attribute, function) != CUDA_SUCCESS) return 0;
  return value;
}

}  // namespace

void give_attributes(std::span<const CUlaunchAttribute> attributes, LaunchCall& launch) noexcept {
  launch.attributes = attributes;
  for (const CUlaunchAttribute& attribute : attributes) {
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = attribute.value.cooperative != 0;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      launch.cluster[0] = attribute.value.clusterDim.x;
      launch.cluster[1] = attribute.value.clusterDim.y;
      launch.cluster[2] = attribute.value.clusterDim.z;
    }
  }
}

LaunchCall read_launch(CUpti_CallbackId call, const void* parameters) noexcept {
  LaunchCall launch;
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: {
      const auto& from = *static_cast<const cuLaunchKernelEx_params*>(parameters);
      if (from.config == nullptr) break;
      launch.function = from.f;
      launch.parameters = from.kernelParams;
      read_shape(*from.config, launch);
      launch.extra = from.extra;
      launch.stream = stream_of(from.config->hStream, call == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz);
      if (from.config->attrs != nullptr) give_attributes({from.config->attrs, from.config->numAttrs}, launch);
      break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: {
      const auto& from = *static_cast<const cuLaunchCooperativeKernel_params*>(parameters);
      read_call(from, launch);
      launch.stream = stream_of(from.hStream, call == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz);
      launch.cooperative = true;
      break;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuLaunch:
      launch.function = static_cast<const cuLaunch_params*>(parameters)->f;
      launch.is_of_cuda_3 = true;
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync: {
      // The second has a stream behind what both have.
      const auto& from = *static_cast<const cuLaunchGrid_params*>(parameters);
      launch.function = from.f;
      launch.grid_blocks[0] = static_cast<std::uint32_t>(from.grid_width);
      launch.grid_blocks[1] = static_cast<std::uint32_t>(from.grid_height);
      if (call == CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync) {
        launch.stream = static_cast<const cuLaunchGridAsync_params*>(parameters)->hStream;
      }
      launch.is_of_cuda_3 = true;
      break;
    }
    default: {
      const auto& from = *static_cast<const cuLaunchKernel_params*>(parameters);
      read_call(from, launch);
      launch.extra = from.extra;
      launch.stream = stream_of(from.hStream, call == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz);
      break;
    }
  }
  return launch;
}

core::Result<std::vector<std::byte>> pack_parameters(CUfunction function, const LaunchCall& launch) {
  std::vector<std::byte> packed;
  if (launch.parameters == nullptr && launch.extra != nullptr) {
    const void* buffer = nullptr;
    std::size_t bytes = 0;
    for (void** item = launch.extra; *item != CU_LAUNCH_PARAM_END; item += 2) {
      if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = item[1];
      if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const std::size_t*>(item[1]);
    }
    packed.resize(bytes);
    if (buffer != nullptr) std::memcpy(packed.data(), buffer, bytes);
    return packed;
  }
  if (driver().cuFuncGetParamInfo == nullptr) {
    return Error{ErrorCode::unsupported, "the driver is older than CUDA 12.4 and does not tell a kernel's parameters"};
  }
  for (std::size_t i = 0;; ++i) {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    const CUresult told = driver().cuFuncGetParamInfo(function, i, &offset, &bytes);
    if (told == CUDA_ERROR_INVALID_VALUE) break;  // behind the last one
    if (told != CUDA_SUCCESS) return Error{ErrorCode::device, describe("asking for the kernel's parameters", told)};
    packed.resize(std::max(packed.size(), offset + bytes));
    if (launch.parameters != nullptr && launch.parameters[i] != nullptr) {
      std::memcpy(&packed[offset], launch.parameters[i], bytes);
    }
  }
  return packed;
}

std::string describe_attributes(CUfunction function, const LaunchCall& launch) {
  std::string text;
  const auto line = [&text](const std::string& key, const std::string& value) { text += key + "=" + value + "\n"; };
  const auto triple = [](const std::uint32_t (&v)[3]) {
    return std::to_string(v[0]) + "," + std::to_string(v[1]) + "," + std::to_string(v[2]);
  };
  line("dynamic_shared", std::to_string(launch.dynamic_shared_bytes));
  line("static_shared", std::to_string(attribute_of(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)));
  line("local", std::to_string(attribute_of(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)));
  line("registers", std::to_string(attribute_of(function, CU_FUNC_ATTRIBUTE_NUM_REGS)));
  line("max_threads", std::to_string(attribute_of(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)));
  line("carveout", std::to_string(attribute_of(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)));
  std::uint32_t cluster[3];
  std::copy_n(launch.cluster, 3, cluster);
  if (cluster[0] == 0) {  // asked for at compile time
    cluster[0] = static_cast<std::uint32_t>(attribute_of(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH));
    cluster[1] = static_cast<std::uint32_t>(attribute_of(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT));
    cluster[2] = static_cast<std::uint32_t>(attribute_of(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH));
  }
  if (cluster[0] != 0) line("cluster", triple(cluster));
  for (const auto& [name, limit] : k_limits) {
    std::size_t value = 0;
    if (driver().cuCtxGetLimit(&value, limit) == CUDA_SUCCESS) line(name, std::to_string(value));
  }
  for (const CUlaunchAttribute& attribute : launch.attributes) {
    std::string value;
    for (const unsigned char byte : attribute.value.pad) {
      constexpr char k_digits[] = "0123456789abcdef";
      value += {k_digits[byte >> 4], k_digits[byte & 15]};
    }
    line("attribute", std::to_string(static_cast<unsigned>(attribute.id)) + ":" + value);
  }
  return text;
}

}  // namespace kerncap::cuda
