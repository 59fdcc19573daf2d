// Runs on the program's threads, inside its driver calls.
#include "cuda/callbacks.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <span>

#include "cuda/api.hpp"
#include "cuda/calls_under_way.hpp"
#include "cuda/code_calls.hpp"
#include "cuda/graph_updates.hpp"
#include "cuda/memory_calls.hpp"
#include "cuda/passing_launch.hpp"
#include "cuda/replace_calls.hpp"
#include "cuda/spare_memory.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

// The program waits for the device.
constexpr CUpti_CallbackId k_waits[] = {
    CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize,
    CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2,
    CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds,
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize,
    CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz,
};
constexpr CUpti_CallbackId k_resources[] = {
    CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
    CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
    CUPTI_CBID_RESOURCE_MODULE_LOADED,
    CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
    CUPTI_CBID_RESOURCE_STREAM_CREATED,
    CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING,
};

// More than any CUPTI has: a newer one than the headers that this was built with may have some of its own.
constexpr CUpti_CallbackId k_most_calls = 4096;
static_assert(CUPTI_DRIVER_TRACE_CBID_SIZE < k_most_calls);

void on_launch(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  Tool& state = *tool();
  if (data.callbackSite == CUPTI_API_EXIT) {
    const CUresult status = *static_cast<const CUresult*>(data.functionReturnValue);
    if (status != CUDA_SUCCESS) state.snapshots.uncount(*data.correlationData);
    if (!state.snapshots.holding()) return;
    const Inside inside;
    state.snapshots.leave(status);
    return;
  }
  state.snapshots.count();
  *data.correlationData = 0;   // for this call's exit
  // In all three families of launches the function comes first, but for cuLaunchKernelEx.
  const LaunchCall launch = read_launch(call, data.functionParams);
  if (launch.function == nullptr) return;   // the driver refuses it
  const Kernel* kernel = state.functions.find(launch.function);
  if (kernel != nullptr && kernel->rule == k_no_rule) return;
  if (kernel == nullptr || kernel->is_of_library()) {
    const Inside inside;
    // A CUkernel runs in the context of the stream, whichever is current.
    const CUcontext context = state.streams.context_of(launch.stream).value_or(data.context);
    if (kernel == nullptr || !kernel->is_of(context)) kernel = state.modules.resolve(launch.function, data.symbolName, context);
    if (kernel == nullptr || kernel->rule == k_no_rule) return;
  }
  const Inside inside;
  state.snapshots.enter(*kernel, launch, data.context, *data.correlationData);
}

// False when this is no call about graphs.
bool on_graph_call(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  Tool& state = *tool();
  const bool entry = data.callbackSite == CUPTI_API_ENTER;
  const bool succeeded = !entry && *static_cast<const CUresult*>(data.functionReturnValue) == CUDA_SUCCESS;
  const Inside inside;
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz: {
      // All five begin with where the executable goes, and the graph.
      const auto& made = *static_cast<const cuGraphInstantiateWithFlags_params*>(data.functionParams);
      if (succeeded) state.graphs.instantiated(*made.phGraphExec, made.hGraph);
      return true;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz: {
      const auto& launch = *static_cast<const cuGraphLaunch_params*>(data.functionParams);
      const bool own = call == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz && launch.hStream == nullptr;
      if (entry) {
        state.snapshots.enter_graph(launch.hGraph, own ? CU_STREAM_PER_THREAD : launch.hStream, data.context);
      }
      return true;
    }
    case CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy:
      if (entry) {
        state.graphs.destroyed(static_cast<const cuGraphExecDestroy_params*>(data.functionParams)->hGraphExec);
      }
      return true;
    default:
      return state.graph_bodies.track(call, data) || track_graph_update(call, data);
  }
}

bool has_waited(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  return *static_cast<const CUresult*>(data.functionReturnValue) == CUDA_SUCCESS &&
         std::find(std::begin(k_waits), std::end(k_waits), call) != std::end(k_waits);
}

void on_other_call(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  Tool& state = *tool();
  if (on_graph_call(call, data)) return;
  if (data.callbackSite == CUPTI_API_ENTER) state.snapshots.sender().make_room(allocated_bytes(call, data));
  if (track_memory_call(state.allocations, call, data)) return;
  track_code_call(call, data);
}

void on_driver_call(CUpti_CallbackId call, const CUpti_CallbackData& data) noexcept {
  Window& window = tool()->snapshots.window();
  const bool entry = data.callbackSite == CUPTI_API_ENTER;
  if (!entry && tool()->own.leaving.load(std::memory_order_relaxed) && has_waited(call, data) && tool()->leaving.look()) {
    return window.end_call(nullptr);   // `data` was CUPTI's
  }
  const UnderWay what = under_way(call);
  if (entry) window.begin_call(what);
  switch (what) {
    case UnderWay::launch:
      on_launch(call, data);
      break;
    case UnderWay::nothing:
    case UnderWay::graph_launch:
    case UnderWay::code_end:
    case UnderWay::rights:
      on_other_call(call, data);
      break;
    case UnderWay::memory_end:
      on_other_call(call, data);
      if (entry) window.end_call(data.context);   // it has left our list
      break;
    case UnderWay::context_end:
      if (entry) tool()->profiler.context_ends();
      break;
    case UnderWay::stream_end:
      // Both calls begin with the stream.
      if (entry) tool()->streams.given_up(static_cast<const cuStreamDestroy_v2_params*>(data.functionParams)->hStream);
      break;
    case UnderWay::copy:
    case UnderWay::submission:
    case UnderWay::recording:
      break;
  }
  if (!entry && what != UnderWay::nothing) window.end_call(data.context);
}

void on_resource(CUpti_CallbackId what, const CUpti_ResourceData& data) noexcept {
  Tool& state = *tool();
  const Inside inside;
  switch (what) {
    case CUPTI_CBID_RESOURCE_MODULE_LOADED: {
      const auto& module = *static_cast<const CUpti_ModuleResourceData*>(data.resourceDescriptor);
      state.modules.loaded(data.context, module.moduleId,
                           {reinterpret_cast<const std::byte*>(module.pCubin), module.cubinSize});
      return;
    }
    case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
      state.modules.unloaded(static_cast<const CUpti_ModuleResourceData*>(data.resourceDescriptor)->moduleId);
      return;
    case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
      state.streams.context_created(data.context);
      return;
    case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
      // What was in it ends with it, mostly without a call of its own; the next context may get the same number.
      state.snapshots.forget(data.context);
      state.modules.forget(data.context);
      state.streams.context_destroyed(data.context);
      state.allocations.context_destroyed(reinterpret_cast<std::uint64_t>(data.context));
      return;
    case CUPTI_CBID_RESOURCE_STREAM_CREATED:
      state.streams.created(data.context, data.resourceHandle.stream);
      return;
    case CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING:
      state.streams.destroyed(data.resourceHandle.stream);
      return;
    default:
      return;
  }
}

void give_up() noexcept {
  if (tool()->own.enabled.exchange(false)) warn("the process may have no more host memory: nothing is captured from here on");
}

[[gnu::noinline]] void on_any_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  // A launch that is held is let go, whatever has happened since.
  if (!tool()->own.enabled.load(std::memory_order_relaxed) && !tool()->snapshots.holding()) {
    // What was counted is still waited for.
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API || Inside::is()) return;
    const auto& call = *static_cast<const CUpti_CallbackData*>(data);
    if (call.callbackSite == CUPTI_API_EXIT) tool()->snapshots.window().end_call(call.context);
    return;
  }
  if (!Inside::is()) note_caller(tool()->own, &this_thread());
  // A question of ours about a function may be what makes the driver load its module: that is the program's.
  if (domain == CUPTI_CB_DOMAIN_RESOURCE && id == CUPTI_CBID_RESOURCE_MODULE_LOADED) {
    if (!this_thread().loads_own_module) on_resource(id, *static_cast<const CUpti_ResourceData*>(data));
    return;
  }
  if (Inside::is()) return;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) on_driver_call(id, *static_cast<const CUpti_CallbackData*>(data));
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) on_resource(id, *static_cast<const CUpti_ResourceData*>(data));
  if (spare_memory_is_used()) give_up();
}

void CUPTIAPI on_callback(void* own, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  const bool is_call = domain == CUPTI_CB_DOMAIN_DRIVER_API;
  if (is_call && lets_pass(*static_cast<OwnProcess*>(own), id, *static_cast<const CUpti_CallbackData*>(data))) return;
  on_any_callback(domain, id, data);
}

Error cupti_error(const char* what, CUptiResult status) {
  const char* text = "?";
  cupti().cuptiGetResultString(status, &text);
  return {ErrorCode::device, std::string(what) + ": " + text};
}

CUptiResult enable(CUpti_CallbackDomain domain, std::span<const CUpti_CallbackId> ids) noexcept {
  for (const CUpti_CallbackId id : ids) {
    const CUptiResult status = cupti().cuptiEnableCallback(1, tool()->subscriber, domain, id);
    // An older CUPTI does not know the newest calls, and its driver does not have them.
    if (status != CUPTI_SUCCESS && status != CUPTI_ERROR_INVALID_PARAMETER) return status;
  }
  return CUPTI_SUCCESS;
}

std::array<std::span<const CUpti_CallbackId>, 13> what_matters() noexcept {
  return {k_waits,
          graph_calls(),
          graph_updates(),
          memory_calls(),
          code_calls(),
          calls_of(UnderWay::copy),
          calls_of(UnderWay::submission),
          calls_of(UnderWay::launch),
          calls_of(UnderWay::graph_launch),
          calls_of(UnderWay::stream_end),
          calls_of(UnderWay::context_end),
          calls_of(UnderWay::rights),
          calls_of(UnderWay::recording)};   // all others are among these
}

CUptiResult enable_what_matters() noexcept {
  CUptiResult status = CUPTI_SUCCESS;
  for (const std::span<const CUpti_CallbackId> ids : what_matters()) {
    if (status == CUPTI_SUCCESS) status = enable(CUPTI_CB_DOMAIN_DRIVER_API, ids);
  }
  return status;
}

void prepare_passing(OwnProcess& own, capture::Channel& channel) noexcept {
  const auto rules = channel.rules();
  own.matched = channel.control().matched;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const capture::Rule& rule = rules[i];
    const bool has_shape = rule.grid_blocks != std::array<std::uint32_t, 3>{} || rule.block_work_items != std::array<std::uint32_t, 3>{};
    own.first_wanted[i] = has_shape || rule.cases != 0 ? 0 : rule.first;
  }
}

}  // namespace

Result<void> subscribe(capture::Mode mode) noexcept {
  const bool replaces = mode == capture::Mode::replace;
  if (!replaces) prepare_passing(tool()->own, *tool()->channel);
  CUptiResult status = cupti().cuptiSubscribe(&tool()->subscriber, replaces ? on_replace_callback : on_callback, &tool()->own);
  if (status == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    return Error{ErrorCode::unsupported, "CUPTI takes one subscriber in a process, and this program, or a tool in it, is that already: "
                                         "switch its profiler off"};
  }
  if (status != CUPTI_SUCCESS) return cupti_error("subscribing to CUPTI", status);
  if (mode == capture::Mode::profile) {
    status = enable(CUPTI_CB_DOMAIN_DRIVER_API, calls_of(UnderWay::context_end));
  } else if (replaces) {
    for (const std::span<const CUpti_CallbackId> ids : replace_calls()) {
      if (status == CUPTI_SUCCESS) status = enable(CUPTI_CB_DOMAIN_DRIVER_API, ids);
    }
  } else {
    status = enable_what_matters();
  }
  if (status == CUPTI_SUCCESS && mode != capture::Mode::profile) status = enable(CUPTI_CB_DOMAIN_RESOURCE, k_resources);
  return status == CUPTI_SUCCESS ? Result<void>() : cupti_error("asking CUPTI for callbacks", status);
}

void unsubscribe() noexcept {
  tool()->own.enabled.store(false);
  cupti().cuptiUnsubscribe(tool()->subscriber);
}

void watch_everything() noexcept {
  if (cupti().cuptiEnableDomain(1, tool()->subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS) {
    warn("CUPTI does not show all calls: other threads may have gone on during the capture");
  }
}

void watch_nothing() noexcept {
  for (const CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RESOURCE}) {
    cupti().cuptiEnableDomain(0, tool()->subscriber, domain);
  }
}

// One by one: to switch the domain off, and what matters on again, would leave a moment in which no call is shown.
void watch_what_matters() noexcept {
  std::bitset<k_most_calls> matters;
  for (const std::span<const CUpti_CallbackId> ids : what_matters()) {
    for (const CUpti_CallbackId id : ids) matters.set(id);
  }
  for (CUpti_CallbackId id = 1; id < k_most_calls; ++id) {
    if (matters.test(id)) continue;
    const CUptiResult status = cupti().cuptiEnableCallback(0, tool()->subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
    if (status != CUPTI_SUCCESS && id >= CUPTI_DRIVER_TRACE_CBID_SIZE) return;   // this CUPTI knows no more
  }
}

}  // namespace kerncap::cuda
