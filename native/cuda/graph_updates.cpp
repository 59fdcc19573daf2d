// Programs that do the same work again and again with other numbers change their executable graph rather than making
// another. The copy that we have of it follows; where it cannot, nothing in it is captured.
#include "cuda/graph_updates.hpp"

#include <mutex>

#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

constexpr CUpti_CallbackId k_graphs[] = {
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams,
    CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy,
    CUPTI_DRIVER_TRACE_CBID_cuGraphAddNode,
    CUPTI_DRIVER_TRACE_CBID_cuGraphAddNode_v2,
    CUPTI_DRIVER_TRACE_CBID_cuGraphDestroyNode,
    CUPTI_DRIVER_TRACE_CBID_cuGraphDestroy,
};
constexpr CUpti_CallbackId k_updates[] = {
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemcpyNodeSetParams,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemsetNodeSetParams,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventRecordNodeSetEvent,
    CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventWaitNodeSetEvent,
    CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled,
};

// What all versions have.
template <typename Parameters>
CUDA_KERNEL_NODE_PARAMS plain(const Parameters& from) noexcept {
  CUDA_KERNEL_NODE_PARAMS to{};
  to.func = from.func;
  to.gridDimX = from.gridDimX;
  to.gridDimY = from.gridDimY;
  to.gridDimZ = from.gridDimZ;
  to.blockDimX = from.blockDimX;
  to.blockDimY = from.blockDimY;
  to.blockDimZ = from.blockDimZ;
  to.sharedMemBytes = from.sharedMemBytes;
  to.kernelParams = from.kernelParams;
  to.extra = from.extra;
  return to;
}

void warn_if_wanted(const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept {
  const Kernel* kernel = kernel_named_by(parameters);
  if (kernel == nullptr || kernel->rule == k_no_rule) return;
  static std::once_flag s_said;
  std::call_once(s_said, [] {
    warn("a kernel that is asked for took another's place in a CUDA graph that held none of those: it is not seen there");
  });
}

void set_kernel_node(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept {
  const bool is_followed = tool()->graphs.node_changed(executable, node, [&](CUgraphNode twin) {
    return driver().cuGraphKernelNodeSetParams_v2(twin, &parameters);
  });
  if (!is_followed) warn_if_wanted(parameters);
}

// `set` does to our copy's node what the call has done to the program's.
template <typename Parameters, typename Set>
void follow(const void* parameters, Set set) noexcept {
  const auto& from = *static_cast<const Parameters*>(parameters);
  tool()->graphs.node_changed(from.hGraphExec, from.hNode, [&](CUgraphNode twin) { return set(twin, from); });
}

void set_node(CUpti_CallbackId call, const void* parameters) noexcept {
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams: {
      const auto& from = *static_cast<const cuGraphExecKernelNodeSetParams_params*>(parameters);
      return set_kernel_node(from.hGraphExec, from.hNode, widened(*from.nodeParams));
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2: {
      const auto& from = *static_cast<const cuGraphExecKernelNodeSetParams_v2_params*>(parameters);
      return set_kernel_node(from.hGraphExec, from.hNode, *from.nodeParams);
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemcpyNodeSetParams:
      return follow<cuGraphExecMemcpyNodeSetParams_params>(parameters, [](CUgraphNode twin, const auto& from) {
        return driver().cuGraphMemcpyNodeSetParams(twin, from.copyParams);
      });
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemsetNodeSetParams:
      return follow<cuGraphExecMemsetNodeSetParams_params>(parameters, [](CUgraphNode twin, const auto& from) {
        return driver().cuGraphMemsetNodeSetParams(twin, from.memsetParams);
      });
    // What the copy names otherwise may go, which the driver does not survive.
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventRecordNodeSetEvent:
      return follow<cuGraphExecEventRecordNodeSetEvent_params>(parameters, [](CUgraphNode twin, const auto& from) {
        return driver().cuGraphEventRecordNodeSetEvent(twin, from.event);
      });
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventWaitNodeSetEvent:
      return follow<cuGraphExecEventWaitNodeSetEvent_params>(parameters, [](CUgraphNode twin, const auto& from) {
        return driver().cuGraphEventWaitNodeSetEvent(twin, from.event);
      });
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams: {
      const auto& from = *static_cast<const cuGraphExecNodeSetParams_params*>(parameters);
      const bool is_followed = tool()->graphs.node_changed(from.hGraphExec, from.hNode, [&](CUgraphNode twin) {
        return driver().cuGraphNodeSetParams(twin, from.nodeParams);
      });
      if (is_followed || from.nodeParams->type != CU_GRAPH_NODE_TYPE_KERNEL) return;
      return warn_if_wanted(widened(from.nodeParams->kernel));
    }
    default:
      return;
  }
}

}  // namespace

CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1& from) noexcept { return plain(from); }

CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v3& from) noexcept {
  CUDA_KERNEL_NODE_PARAMS to = plain(from);
  to.kern = from.kern;
  to.ctx = from.ctx;
  return to;
}

std::span<const CUpti_CallbackId> graph_calls() noexcept { return k_graphs; }
std::span<const CUpti_CallbackId> graph_updates() noexcept { return k_updates; }

bool track_graph_update(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  Graphs& graphs = tool()->graphs;
  // All of these begin with the executable, the updates with executable and graph.
  const auto& update = *static_cast<const cuGraphExecUpdate_v2_params*>(data.functionParams);
  const bool ends = data.callbackSite == CUPTI_API_EXIT;
  const bool succeeded = ends && *static_cast<const CUresult*>(data.functionReturnValue) == CUDA_SUCCESS;
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2:
      // After one that failed, nobody says how much of it was done.
      if (succeeded) graphs.updated(update.hGraphExec, update.hGraph);
      else if (ends) graphs.changed(update.hGraphExec);
      return true;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemcpyNodeSetParams:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecMemsetNodeSetParams:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventRecordNodeSetEvent:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventWaitNodeSetEvent:
      if (succeeded) set_node(call, data.functionParams);
      return true;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams:
      if (succeeded) graphs.changed(update.hGraphExec);
      return true;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled:
      if (succeeded) graphs.switched(update.hGraphExec);
      return true;
    default:
      return false;
  }
}

}  // namespace kerncap::cuda
