// Hooks of the copy and fill functions; capture/deferred_calls.hpp says why they are deferred.
#include "hsa/copies.hpp"

#include <functional>

#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {

void Copies::note(const Route& route) noexcept {
  const std::lock_guard lock(m_mutex);
  m_routes.insert(route);
}

std::vector<Copies::Route> Copies::routes() const {
  const std::lock_guard lock(m_mutex);
  return {m_routes.begin(), m_routes.end()};
}

namespace {

// An asynchronous copy: now, or after the captures that are under way.
hsa_status_t copy_or_defer(const Copies::Route& route, std::uint32_t count, const hsa_signal_t* dependencies,
                           hsa_signal_t complete,
                           std::function<hsa_status_t(std::uint32_t, const hsa_signal_t*)> copy) {
  if (!enabled() || tool()->profiling()) return copy(count, dependencies);
  tool()->copies.note(route);
  std::vector<hsa_signal_t> kept(dependencies, dependencies + (dependencies == nullptr ? 0 : count));
  auto call = [copy, complete, kept = std::move(kept)] {
    const auto status = copy(static_cast<std::uint32_t>(kept.size()), kept.empty() ? nullptr : kept.data());
    if (status == HSA_STATUS_SUCCESS) return;
    // The program was told that it worked: all that is left is not to let it wait for ever.
    tool()->snapshots.warn("a copy that was deferred during a capture failed when it was issued");
    if (complete.handle != 0) api().core.hsa_signal_subtract_screlease_fn(complete, 1);
  };
  if (tool()->snapshots.session().defer(std::move(call))) return HSA_STATUS_SUCCESS;
  return copy(count, dependencies);
}

}  // namespace

namespace hooks {

hsa_status_t hsa_amd_memory_async_copy(void* dst, hsa_agent_t dst_agent, const void* src, hsa_agent_t src_agent,
                                       size_t size, uint32_t num_dep_signals, const hsa_signal_t* dep_signals,
                                       hsa_signal_t completion_signal) {
  return copy_or_defer({dst_agent.handle, src_agent.handle, 0}, num_dep_signals, dep_signals, completion_signal,
                       [=](std::uint32_t count, const hsa_signal_t* dependencies) {
                         return api().ext.hsa_amd_memory_async_copy_fn(dst, dst_agent, src, src_agent, size, count,
                                                                       dependencies, completion_signal);
                       });
}

hsa_status_t hsa_amd_memory_async_copy_on_engine(void* dst, hsa_agent_t dst_agent, const void* src,
                                                 hsa_agent_t src_agent, size_t size, uint32_t num_dep_signals,
                                                 const hsa_signal_t* dep_signals, hsa_signal_t completion_signal,
                                                 hsa_amd_sdma_engine_id_t engine_id, bool force_copy_on_sdma) {
  return copy_or_defer({dst_agent.handle, src_agent.handle, static_cast<std::uint32_t>(engine_id)},
                       num_dep_signals, dep_signals, completion_signal,
                       [=](std::uint32_t count, const hsa_signal_t* dependencies) {
                         return api().ext.hsa_amd_memory_async_copy_on_engine_fn(
                             dst, dst_agent, src, src_agent, size, count, dependencies, completion_signal, engine_id,
                             force_copy_on_sdma);
                       });
}

hsa_status_t hsa_amd_memory_async_copy_rect(const hsa_pitched_ptr_t* dst, const hsa_dim3_t* dst_offset,
                                            const hsa_pitched_ptr_t* src, const hsa_dim3_t* src_offset,
                                            const hsa_dim3_t* range, hsa_agent_t copy_agent,
                                            hsa_amd_copy_direction_t dir, uint32_t num_dep_signals,
                                            const hsa_signal_t* dep_signals, hsa_signal_t completion_signal) {
  const std::uint64_t host = enabled() ? tool()->agents.host().handle : 0;
  Copies::Route route{copy_agent.handle, copy_agent.handle, 0};
  if (dir == hsaHostToDevice) route.from = host;
  if (dir == hsaDeviceToHost) route.to = host;
  // The descriptors are the caller's: they may be gone when a deferred copy is issued.
  return copy_or_defer(route, num_dep_signals, dep_signals, completion_signal,
                       [=, to = *dst, to_at = *dst_offset, from = *src, from_at = *src_offset,
                        extent = *range](std::uint32_t count, const hsa_signal_t* dependencies) {
                         return api().ext.hsa_amd_memory_async_copy_rect_fn(&to, &to_at, &from, &from_at, &extent,
                                                                            copy_agent, dir, count, dependencies,
                                                                            completion_signal);
                       });
}

hsa_status_t hsa_memory_copy(void* dst, const void* src, size_t size) {
  capture::Session::Call call;
  if (enabled() && !tool()->profiling()) call = tool()->snapshots.session().wait_for_turn();
  return api().core.hsa_memory_copy_fn(dst, src, size);
}

hsa_status_t hsa_amd_memory_fill(void* ptr, uint32_t value, size_t count) {
  capture::Session::Call call;
  if (enabled() && !tool()->profiling()) call = tool()->snapshots.session().wait_for_turn();
  return api().ext.hsa_amd_memory_fill_fn(ptr, value, count);
}

}  // namespace hooks
}  // namespace kerncap::hsa
