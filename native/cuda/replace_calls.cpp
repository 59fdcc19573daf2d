// Runs on the program's threads, inside its driver calls.
#include "cuda/replace_calls.hpp"

#include "cuda/calls_under_way.hpp"
#include "cuda/code_calls.hpp"
#include "cuda/graph_updates.hpp"
#include "cuda/redirect.hpp"
#include "cuda/spare_memory.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

// What is set of a function holds for what runs in its place.
constexpr CUpti_CallbackId k_settings[] = {
    CUPTI_DRIVER_TRACE_CBID_cuFuncSetAttribute,
    CUPTI_DRIVER_TRACE_CBID_cuFuncSetCacheConfig,
    CUPTI_DRIVER_TRACE_CBID_cuKernelSetAttribute,
    CUPTI_DRIVER_TRACE_CBID_cuKernelSetCacheConfig,
};

template <typename Parameters>
const Parameters& as(const CUpti_CallbackData& data) noexcept {
  return *static_cast<const Parameters*>(data.functionParams);
}

bool has_succeeded(const CUpti_CallbackData& data) noexcept {
  return *static_cast<const CUresult*>(data.functionReturnValue) == CUDA_SUCCESS;
}

const Kernel* find_kernel(const LaunchCall& launch, const CUpti_CallbackData& data) noexcept {
  Tool& state = *tool();
  const Kernel* kernel = state.functions.find(launch.function);
  if (kernel != nullptr && (kernel->rule == k_no_rule || !kernel->is_of_library())) return kernel;
  const Inside inside;
  // A CUkernel runs in the context of the stream, whichever is current.
  const CUcontext context = state.streams.context_of(launch.stream).value_or(data.context);
  if (kernel != nullptr && kernel->is_of(context)) return kernel;
  return state.modules.resolve(launch.function, data.symbolName, context);
}

// The correlation data of a launch under way: its rule, from 1, whether the captured kernel runs, and whether it is told why.
constexpr std::uint64_t k_is_kept = 1u << 16;
constexpr std::uint64_t k_has_failed = 1u << 17;
static_assert(capture::k_max_rules < k_is_kept);

void begin_launch(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  *data.correlationData = 0;
  const LaunchCall launch = read_launch(call, data.functionParams);
  if (launch.function == nullptr) return;   // the driver refuses it
  const Kernel* kernel = find_kernel(launch, data);
  if (kernel == nullptr || kernel->rule == k_no_rule) return;
  const Inside inside;
  if (is_recording(launch.stream)) return;   // into a graph: that gets the variant when it is made executable
  Variant* const variant = tool()->replacements.of(*kernel);   // null: the collector has been told why
  const Redirected redirected = variant == nullptr
                                    ? Redirected::kept
                                    : redirect(call, const_cast<void*>(data.functionParams), *kernel, launch, *variant);
  *data.correlationData = (kernel->rule + std::uint64_t{1}) | (redirected == Redirected::yes ? 0 : k_is_kept) |
                          (redirected == Redirected::failed ? k_has_failed : 0);
}

void end_launch(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  const std::uint64_t begun = *data.correlationData;
  const std::uint64_t rule = begun & (k_is_kept - 1);
  if (rule == 0 || rule > capture::k_max_rules || !has_succeeded(data)) return;
  capture::Control& control = tool()->channel->control();
  if ((begun & k_is_kept) == 0) {
    control.replaced[rule - 1].fetch_add(1, std::memory_order_relaxed);
  } else {
    capture::keep_captured(control, rule - 1, shape_of(read_launch(call, data.functionParams)));
  }
  if ((begun & k_has_failed) != 0) {
    const Inside inside;
    tell_failure();
  }
}

// While the driver reads the nodes of `graph`, those of replaced kernels have the variants.
template <typename Made>
void lend(const CUpti_CallbackData& data, CUgraph graph, Made made) noexcept {
  GraphVariants& variants = tool()->graph_variants;
  if (data.callbackSite == CUPTI_API_ENTER) return variants.begin(graph);
  return has_succeeded(data) ? made(variants) : variants.failed();
}

void on_graph_update(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  GraphVariants& variants = tool()->graph_variants;
  const bool is_done = data.callbackSite == CUPTI_API_EXIT && has_succeeded(data);
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2: {
      // Both begin with the executable, and the graph.
      const auto& update = as<cuGraphExecUpdate_v2_params>(data);
      return lend(data, update.hGraph, [&](GraphVariants& its) { its.updated(update.hGraphExec); });
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled: {
      const auto& set = as<cuGraphNodeSetEnabled_params>(data);
      if (is_done) variants.node_enabled(set.hGraphExec, set.hNode, set.isEnabled != 0);
      return;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecChildGraphNodeSetParams: {
      const auto& set = as<cuGraphExecChildGraphNodeSetParams_params>(data);
      return lend(data, set.childGraph, [&](GraphVariants& its) { its.child_made(set.hGraphExec, set.hNode); });
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecNodeSetParams: {
      const auto& set = as<cuGraphExecNodeSetParams_params>(data);
      if (set.nodeParams == nullptr) return;
      if (set.nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        return lend(data, set.nodeParams->graph.graph, [&](GraphVariants& its) { its.child_made(set.hGraphExec, set.hNode); });
      }
      if (is_done && set.nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        variants.node_set(set.hGraphExec, set.hNode, widened(set.nodeParams->kernel));
      }
      return;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams: {
      const auto& set = as<cuGraphExecKernelNodeSetParams_params>(data);
      if (is_done) variants.node_set(set.hGraphExec, set.hNode, widened(*set.nodeParams));
      return;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2: {
      const auto& set = as<cuGraphExecKernelNodeSetParams_v2_params>(data);
      if (is_done) variants.node_set(set.hGraphExec, set.hNode, *set.nodeParams);
      return;
    }
    default:
      return;
  }
}

// False: it is another call.
bool on_graph_call(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  Tool& state = *tool();
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz: {
      // All five begin with where the executable goes, and the graph.
      const auto& made = as<cuGraphInstantiateWithFlags_params>(data);
      lend(data, made.hGraph, [&](GraphVariants& its) { its.made(*made.phGraphExec); });
      return true;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz:
      // Both begin with the executable.
      if (data.callbackSite == CUPTI_API_EXIT && has_succeeded(data)) {
        state.graph_variants.launched(as<cuGraphLaunch_params>(data).hGraph);
      }
      return true;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy:
      if (data.callbackSite == CUPTI_API_ENTER) state.graph_variants.destroyed(as<cuGraphExecDestroy_params>(data).hGraphExec);
      return true;
    default:
      break;
  }
  return state.graph_bodies.track(call, data);
}

// False: it is another call.
bool on_setting(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  Replacements& replacements = tool()->replacements;
  const bool is_done = data.callbackSite == CUPTI_API_EXIT && has_succeeded(data);
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuFuncSetAttribute:
      if (is_done) replacements.setting_changed(as<cuFuncSetAttribute_params>(data).hfunc, false);
      return true;
    case CUPTI_DRIVER_TRACE_CBID_cuKernelSetAttribute:
      if (is_done) replacements.setting_changed(as<cuKernelSetAttribute_params>(data).kernel, true);
      return true;
    case CUPTI_DRIVER_TRACE_CBID_cuFuncSetCacheConfig: {
      const auto& set = as<cuFuncSetCacheConfig_params>(data);
      if (is_done) replacements.cache_preferred(set.hfunc, false, set.config);
      return true;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuKernelSetCacheConfig: {
      const auto& set = as<cuKernelSetCacheConfig_params>(data);
      if (is_done) replacements.cache_preferred(set.kernel, true, set.config);
      return true;
    }
    default:
      return false;
  }
}

void on_driver_call(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  const bool is_entry = data.callbackSite == CUPTI_API_ENTER;
  if (under_way(call) == UnderWay::launch) return is_entry ? begin_launch(call, data) : end_launch(call, data);
  if (on_setting(call, data)) return;
  const Inside inside;
  if (on_graph_call(call, data)) return;
  on_graph_update(call, data);
  track_code_call(call, data, false);
}

void on_resource(CUpti_CallbackId what, const CUpti_ResourceData& data) noexcept {
  Tool& state = *tool();
  const Inside inside;
  const auto* module = static_cast<const CUpti_ModuleResourceData*>(data.resourceDescriptor);   // of those that have one
  switch (what) {
    case CUPTI_CBID_RESOURCE_MODULE_LOADED:
      return state.modules.loaded(data.context, module->moduleId,
                                  {reinterpret_cast<const std::byte*>(module->pCubin), module->cubinSize});
    case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
      return state.modules.unloaded(module->moduleId);
    case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
      return state.streams.context_created(data.context);
    case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
      // What was in it ends with it: nothing has to be unloaded.
      state.replacements.forget(data.context);
      state.modules.forget(data.context);
      return state.streams.context_destroyed(data.context);
    case CUPTI_CBID_RESOURCE_STREAM_CREATED:
      return state.streams.created(data.context, data.resourceHandle.stream);
    case CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING:
      return state.streams.destroyed(data.resourceHandle.stream);
    default:
      return;
  }
}

// The program's graphs are as they were also where nothing is replaced any more, but not in a child.
void end_while_disabled(const OwnProcess& own, CUpti_CallbackDomain domain, const void* data) noexcept {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API || !own.is_ours.load(std::memory_order_relaxed) || Inside::is()) return;
  if (static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_EXIT) tool()->graph_variants.give_up();
}

}  // namespace

std::array<std::span<const CUpti_CallbackId>, 6> replace_calls() noexcept {
  return {calls_of(UnderWay::launch), calls_of(UnderWay::graph_launch), code_calls(), graph_calls(), graph_updates(), k_settings};
}

void CUPTIAPI on_replace_callback(void* own, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (!static_cast<OwnProcess*>(own)->enabled.load(std::memory_order_relaxed)) {
    return end_while_disabled(*static_cast<OwnProcess*>(own), domain, data);
  }
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    // A question of ours about a function may be what makes the driver load its module: that is the program's.
    const bool is_program = id == CUPTI_CBID_RESOURCE_MODULE_LOADED ? !this_thread().loads_own_module : !Inside::is();
    if (is_program) on_resource(id, *static_cast<const CUpti_ResourceData*>(data));
  } else if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    const auto& call = *static_cast<const CUpti_CallbackData*>(data);
    if (!Inside::is()) {
      on_driver_call(id, call);
    } else if (call.callbackSite == CUPTI_API_ENTER) {
      redirect_trial(id, const_cast<void*>(call.functionParams));
    }
  }
  if (spare_memory_is_used() && static_cast<OwnProcess*>(own)->enabled.exchange(false)) {
    warn("the process may have no more host memory: nothing more is replaced, or counted, from here on");
  }
}

}  // namespace kerncap::cuda
