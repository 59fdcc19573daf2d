#include "cuda/redirect.hpp"

#include <atomic>
#include <mutex>
#include <optional>

#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

enum class Trial { unknown, works, fails };

std::atomic<Trial> g_trial{Trial::unknown};
std::mutex g_trial_mutex;
thread_local const Variant* t_tried = nullptr;    // by this thread, now
thread_local constinit CUlaunchConfig t_config{};  // of a cuLaunchKernelEx under way

template <typename Parameters>
void put(void* parameters, const Variant& variant, const VariantLaunch& launch) noexcept {
  auto& to = *static_cast<Parameters*>(parameters);
  to.f = variant.function;
  to.gridDimX = launch.grid_blocks[0];
  to.gridDimY = launch.grid_blocks[1];
  to.gridDimZ = launch.grid_blocks[2];
  to.blockDimX = launch.block[0];
  to.blockDimY = launch.block[1];
  to.blockDimZ = launch.block[2];
  to.sharedMemBytes = launch.dynamic_shared_bytes;
}

// Which function a launch becomes that asks for the captured one, on a stream of our own that is recorded. None: the driver
// refuses such a launch.
std::optional<CUfunction> record(const LaunchCall& asked, const Variant& variant, const VariantLaunch& launch) noexcept {
  CUstream stream = nullptr;
  if (driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return std::nullopt;
  CUgraph graph = nullptr;
  std::optional<CUfunction> recorded;
  if (driver().cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS) {
    const auto& grid = launch.grid_blocks;
    const auto& block = launch.block;
    t_tried = &variant;
    const CUresult launched = driver().cuLaunchKernel(variant.captured, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                                      launch.dynamic_shared_bytes, stream, asked.parameters, asked.extra);
    t_tried = nullptr;
    std::size_t count = 1;
    CUgraphNode node = nullptr;
    CUDA_KERNEL_NODE_PARAMS parameters{};
    const bool is_made = driver().cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && launched == CUDA_SUCCESS;
    if (is_made && driver().cuGraphGetNodes(graph, &node, &count) == CUDA_SUCCESS && count == 1 &&
        driver().cuGraphKernelNodeGetParams_v2(node, &parameters) == CUDA_SUCCESS) {
      recorded = parameters.func;
    }
  }
  if (graph != nullptr) driver().cuGraphDestroy(graph);
  driver().cuStreamDestroy_v2(stream);
  return recorded;
}

bool is_possible(const LaunchCall& asked, const Variant& variant, const VariantLaunch& launch) noexcept {
  if (g_trial.load(std::memory_order_relaxed) == Trial::unknown) {
    const std::lock_guard lock(g_trial_mutex);
    const RelaxedMode relaxed;
    CUcontext current = nullptr;
    driver().cuCtxGetCurrent(&current);
    std::optional<Entered> entered;
    if (variant.context != current) entered.emplace(variant.context);
    const std::optional<CUfunction> recorded = record(asked, variant, launch);
    if (recorded) g_trial.store(*recorded == variant.function ? Trial::works : Trial::fails);
  }
  return g_trial.load(std::memory_order_relaxed) == Trial::works;
}

}  // namespace

Redirected redirect(CUpti_CallbackId call, void* parameters, const Kernel& kernel, const LaunchCall& asked,
                    Variant& variant) noexcept {
  const std::optional<VariantLaunch> launch = fit(variant, asked);
  if (!launch) return Redirected::kept;
  if (!is_possible(asked, variant, *launch)) {
    if (g_trial.load() == Trial::fails && !variant.is_told.exchange(true)) {
      tool()->replacements.fail(kernel.rule, kernel.module,
                                "the driver does not launch what is put in the kernel's place with " + cupti().path);
    }
    return Redirected::no;
  }
  if (core::Result<void> copied = copy_constants(variant, asked.stream); !copied) {
    if (!variant.is_told.exchange(true)) tool()->replacements.fail(kernel.rule, kernel.module, copied.error().message);
    return Redirected::no;
  }
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
      put<cuLaunchKernel_params>(parameters, variant, *launch);
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz:
      put<cuLaunchCooperativeKernel_params>(parameters, variant, *launch);
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: {
      auto& to = *static_cast<cuLaunchKernelEx_params*>(parameters);
      t_config = *to.config;   // the program's own stays as it is
      t_config.gridDimX = launch->grid_blocks[0];
      t_config.gridDimY = launch->grid_blocks[1];
      t_config.gridDimZ = launch->grid_blocks[2];
      t_config.blockDimX = launch->block[0];
      t_config.blockDimY = launch->block[1];
      t_config.blockDimZ = launch->block[2];
      t_config.sharedMemBytes = launch->dynamic_shared_bytes;
      to.f = variant.function;
      to.config = &t_config;
      break;
    }
    default:
      return Redirected::no;
  }
  return Redirected::yes;
}

void redirect_trial(CUpti_CallbackId call, void* parameters) noexcept {
  if (t_tried == nullptr || call != CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) return;
  static_cast<cuLaunchKernel_params*>(parameters)->f = t_tried->function;
}

}  // namespace kerncap::cuda
