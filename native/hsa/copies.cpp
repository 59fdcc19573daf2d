// Hooks of the copy and fill functions; see the header for why they are deferred.
#include "hsa/copies.hpp"

#include <chrono>

#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {

std::uint64_t Copies::begin_capture() noexcept {
  m_busy.fetch_add(1, std::memory_order_seq_cst);
  const std::lock_guard lock(m_mutex);
  return m_order.begin();
}

void Copies::end_capture(std::uint64_t number) noexcept {
  std::unique_lock lock(m_mutex);
  m_order.end(number);
  m_busy.fetch_sub(1, std::memory_order_seq_cst);
  issue(lock);
  m_changed.notify_all();
}

std::uint64_t Copies::begun() const noexcept {
  const std::lock_guard lock(m_mutex);
  return m_order.now();
}

// One thread issues at a time, without the lock: a call may take long, and may call back into the program.
void Copies::issue(std::unique_lock<std::mutex>& lock) noexcept {
  if (m_issuing) return;
  m_issuing = true;
  while (!m_deferred.empty() && m_order.passed(m_deferred.front().moment)) {
    Deferred next = std::move(m_deferred.front());
    m_deferred.pop_front();
    lock.unlock();
    const hsa_status_t status = next.call();
    if (status != HSA_STATUS_SUCCESS) {
      // The program was told that it worked: all that is left is not to let it wait for ever.
      tool()->snapshots.warn("a copy that was deferred during a capture failed when it was issued");
      if (next.complete.handle != 0) api().core.hsa_signal_subtract_screlease_fn(next.complete, 1);
    }
    lock.lock();
    m_busy.fetch_sub(1, std::memory_order_seq_cst);
  }
  m_issuing = false;
}

bool Copies::defer(Call call, hsa_signal_t complete) noexcept {
  if (m_busy.load(std::memory_order_seq_cst) == 0) return false;
  const std::lock_guard lock(m_mutex);
  if (m_order.idle() && m_deferred.empty() && !m_issuing) return false;
  m_busy.fetch_add(1, std::memory_order_seq_cst);
  m_deferred.push_back({m_order.now(), std::move(call), complete});
  return true;
}

void Copies::wait_for_turn() noexcept {
  if (m_busy.load(std::memory_order_seq_cst) == 0) return;
  std::unique_lock lock(m_mutex);
  const std::uint64_t moment = m_order.now();
  m_changed.wait_for(lock, 2 * tool()->channel->wait_limit(), [&] {
    return m_order.passed(moment) && (m_deferred.empty() || m_deferred.front().moment > moment) && !m_issuing;
  });
}

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
  auto call = [copy, kept = std::move(kept)] {
    return copy(static_cast<std::uint32_t>(kept.size()), kept.empty() ? nullptr : kept.data());
  };
  if (tool()->copies.defer(std::move(call), complete)) return HSA_STATUS_SUCCESS;
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
  if (enabled() && !tool()->profiling()) tool()->copies.wait_for_turn();
  return api().core.hsa_memory_copy_fn(dst, src, size);
}

hsa_status_t hsa_amd_memory_fill(void* ptr, uint32_t value, size_t count) {
  if (enabled() && !tool()->profiling()) tool()->copies.wait_for_turn();
  return api().ext.hsa_amd_memory_fill_fn(ptr, value, count);
}

}  // namespace hooks
}  // namespace kerncap::hsa
