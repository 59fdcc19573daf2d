#include "cuda/redirect.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

enum class Trial { unknown, works, fails };

std::atomic<Trial> g_trial{Trial::unknown};
std::mutex g_trial_mutex;
thread_local const Variant* t_tried = nullptr;    // by this thread, now
thread_local constinit CUlaunchConfig t_config{};  // of a cuLaunchKernelEx under way

// Why the captured kernel runs in a launch under way.
struct Failure {
  enum class Kind { ignored, untried, constants };
  Kind kind = Kind::ignored;
  Variant* variant = nullptr;
  std::uint64_t module = 0;
  const char* what = nullptr;
  CUresult status = CUDA_SUCCESS;
};
thread_local constinit Failure t_failure{};

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

// A launch that asks for the captured function, on a stream of our own that is recorded.
struct Recorded {
  CUfunction function = nullptr;   // that it launches
  const char* what = nullptr;      // could not be done
  CUresult status = CUDA_SUCCESS;
};
Recorded record(const LaunchCall& asked, const Variant& variant, const VariantLaunch& launch) noexcept {
  Recorded made;
  const auto is_done = [&made](const char* what, CUresult status) {
    if (status != CUDA_SUCCESS && made.what == nullptr) made.what = what, made.status = status;
    return made.what == nullptr;
  };
  CUstream stream = nullptr;
  if (!is_done("making a stream", driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))) return made;
  CUgraph graph = nullptr;
  if (is_done("recording a stream", driver().cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED))) {
    const auto& grid = launch.grid_blocks;
    const auto& block = launch.block;
    t_tried = &variant;
    const CUresult launched = driver().cuLaunchKernel(variant.captured, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                                      launch.dynamic_shared_bytes, stream, asked.parameters, asked.extra);
    t_tried = nullptr;
    (void)is_done("recording a launch", launched);
    std::size_t count = 1;
    CUgraphNode node = nullptr;
    CUDA_KERNEL_NODE_PARAMS parameters{};
    if (is_done("ending the recording", driver().cuStreamEndCapture(stream, &graph)) &&
        is_done("reading the recorded graph", driver().cuGraphGetNodes(graph, &node, &count)) &&
        is_done("reading the recorded launch",
                count == 1 ? driver().cuGraphKernelNodeGetParams_v2(node, &parameters) : CUDA_ERROR_NOT_FOUND)) {
      made.function = parameters.func;
    }
  }
  if (graph != nullptr) driver().cuGraphDestroy(graph);
  driver().cuStreamDestroy_v2(stream);
  return made;
}

// Tries it unless an earlier launch did. False: `failure` says why.
bool is_possible(const LaunchCall& asked, const Variant& variant, const VariantLaunch& launch, Failure& failure) noexcept {
  if (g_trial.load(std::memory_order_relaxed) == Trial::unknown) {
    const std::lock_guard lock(g_trial_mutex);
    if (g_trial.load() == Trial::unknown) {
      const RelaxedMode relaxed;
      CUcontext current = nullptr;
      driver().cuCtxGetCurrent(&current);
      std::optional<Entered> entered;
      if (variant.context != current) entered.emplace(variant.context);
      const Recorded recorded = record(asked, variant, launch);
      if (recorded.what == nullptr) {
        g_trial.store(recorded.function == variant.function ? Trial::works : Trial::fails);
      } else {
        failure.kind = Failure::Kind::untried;   // the next launch tries again
        failure.what = recorded.what;
        failure.status = recorded.status;
        return false;
      }
    }
  }
  failure.kind = Failure::Kind::ignored;
  return g_trial.load(std::memory_order_relaxed) == Trial::works;
}

std::string explain(const Failure& failure) {
  switch (failure.kind) {
    case Failure::Kind::ignored:
      return "the driver does not launch what is put in the kernel's place with " + cupti().path;
    case Failure::Kind::untried:
      return describe(std::string("whether the driver launches what is put in the kernel's place could not be tried: ") + failure.what,
                      failure.status);
    default:
      return describe("copying the program's constants", failure.status);
  }
}

}  // namespace

Redirected redirect(CUpti_CallbackId call, void* parameters, const Kernel& kernel, const LaunchCall& asked,
                    Variant& variant) noexcept {
  const std::optional<VariantLaunch> launch = fit(variant, asked);
  if (!launch) return Redirected::kept;
  t_failure = {.variant = &variant, .module = kernel.module};
  if (!is_possible(asked, variant, *launch, t_failure)) return Redirected::failed;
  if (const CUresult copied = copy_constants(variant, asked.stream); copied != CUDA_SUCCESS) {
    t_failure.kind = Failure::Kind::constants;
    t_failure.status = copied;
    return Redirected::failed;
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
      return Redirected::kept;
  }
  return Redirected::yes;
}

void tell_failure() noexcept {
  Variant& variant = *t_failure.variant;
  if (!variant.is_told.exchange(true)) tool()->replacements.fail(variant.rule, t_failure.module, explain(t_failure));
}

void redirect_trial(CUpti_CallbackId call, void* parameters) noexcept {
  if (t_tried == nullptr || call != CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) return;
  static_cast<cuLaunchKernel_params*>(parameters)->f = t_tried->function;
}

}  // namespace kerncap::cuda
