// Dispatch times for kc-profile.
#include "hsa/profiler.hpp"

#include <time.h>

#include <algorithm>
#include <optional>

#include "capture/trials.hpp"
#include "hsa/api.hpp"
#include "hsa/packets.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

// How often the harvester looks: ever more rarely where nothing ends, often where the program waits for a signal that
// we complete.
constexpr long k_calm_ns = 500'000;
constexpr long k_soon_ns = 50'000;
constexpr long k_hurry_ns = 10'000;
// Entries at which each look looks: programs look often, and a queue may hold thousands. Behind a kernel that runs on
// while more than these come and go, only our thread looks further.
constexpr std::uint64_t k_window = 256;

}  // namespace

PendingRing* Profiler::add_queue(hsa_agent_t agent, std::uint32_t device, std::uint32_t queue,
                                 std::uint32_t packets) noexcept {
  auto ring = std::make_unique<PendingRing>();
  ring->agent = agent;
  ring->device = device;
  ring->queue = queue;
  ring->size = packets;
  ring->entries = std::make_unique<PendingRing::Entry[]>(packets);
  for (std::uint32_t i = 0; i < packets; ++i) {
    const hsa_status_t status = api().ext.hsa_amd_signal_create_fn(1, 0, nullptr, HSA_AMD_SIGNAL_AMD_GPU_ONLY,
                                                                   &ring->entries[i].ours);
    if (status == HSA_STATUS_SUCCESS) continue;
    ring->size = i;  // as many as there are; all sizes work
    break;
  }
  if (ring->size == 0) return nullptr;
  const std::lock_guard lock(m_mutex);
  if (!m_started) {
    m_started = m_thread.start("kc-profile", [](void* self) { static_cast<Profiler*>(self)->run(); }, this);
  }
  m_rings.push_back(std::move(ring));
  return m_started ? m_rings.back().get() : nullptr;
}

bool Profiler::time(Queue& queue, Packet& packet) noexcept {
  hsa_kernel_dispatch_packet_t dispatch = as_dispatch(packet);
  const Kernel* kernel = tool()->kernels.find(dispatch.kernel_object);
  if (kernel != nullptr && kernel->enqueues) tool()->queues.watch_for_kernels();
  capture::Control& control = tool()->channel->control();
  const std::uint64_t index = control.dispatches.fetch_add(1, std::memory_order_relaxed);
  PendingRing* ring = queue.pending;
  const std::uint64_t head = ring == nullptr ? 0 : ring->head.load(std::memory_order_relaxed);
  if (ring == nullptr || head - ring->tail.load(std::memory_order_acquire) >= ring->size) {
    control.untimed.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  PendingRing::Entry& entry = ring->entries[head % ring->size];
  entry.theirs = dispatch.completion_signal;
  entry.record = {kernel == nullptr ? 0 : kernel->id,
                  ring->device,
                  ring->queue,
                  dispatch.group_segment_size,
                  {dispatch.grid_size_x, dispatch.grid_size_y, dispatch.grid_size_z},
                  {dispatch.workgroup_size_x, dispatch.workgroup_size_y, dispatch.workgroup_size_z, 0},
                  dispatch.private_segment_size,
                  capture::in_trial() ? 1u : 0u,
                  index,
                  0,
                  0};
  entry.waiting.store(true, std::memory_order_relaxed);
  api().core.hsa_signal_store_relaxed_fn(entry.ours, 1);
  if (entry.theirs.handle != 0) m_hurry.store(true, std::memory_order_relaxed);
  ring->head.store(head + 1, std::memory_order_release);
  dispatch.completion_signal = entry.ours;
  packet = to_packet(dispatch);
  return true;
}

bool Profiler::harvest(PendingRing& ring, std::uint64_t most) noexcept {
  const std::uint64_t head = ring.head.load(std::memory_order_acquire);
  std::uint64_t tail = ring.tail.load(std::memory_order_relaxed);
  bool hurry = false;
  std::optional<bool> can_ask;   // debug builds of ROCr abort where they cannot ask the driver for its clocks
  for (std::uint64_t at = tail; at < head && at - tail < most && !tool()->gone.load(); ++at) {
    PendingRing::Entry& entry = ring.entries[at % ring.size];
    if (entry.waiting.load(std::memory_order_relaxed)) {
      if (api().core.hsa_signal_load_scacquire_fn(entry.ours) > 0) {
        hurry = hurry || entry.theirs.handle != 0;
        continue;
      }
      hsa_amd_profiling_dispatch_time_t time{};
      if (!can_ask) can_ask = tool()->channel->owns_socket();
      if (*can_ask) api().ext.hsa_amd_profiling_get_dispatch_time_fn(ring.agent, entry.ours, &time);
      if (entry.theirs.handle != 0) {
        auto* theirs = reinterpret_cast<amd_signal_t*>(entry.theirs.handle);
        const auto* ours = reinterpret_cast<const amd_signal_t*>(entry.ours.handle);
        theirs->start_ts = ours->start_ts;
        theirs->end_ts = ours->end_ts;
        api().core.hsa_signal_subtract_screlease_fn(entry.theirs, 1);
      }
      entry.record.start_ns = time.start;
      entry.record.end_ns = time.end;
      if (*can_ask) {
        tool()->channel->push_record(entry.record);
      } else {
        tool()->channel->control().untimed.fetch_add(1, std::memory_order_relaxed);
      }
      entry.waiting.store(false, std::memory_order_relaxed);
    }
    if (at == tail) ring.tail.store(++tail, std::memory_order_release);
  }
  return hurry;
}

void Profiler::harvest() noexcept { harvest_all(false); }

void Profiler::harvest_all(bool beyond_window) noexcept {
  const std::lock_guard lock(m_mutex);
  bool hurry = false;
  for (const auto& ring : m_rings) {
    // The window moves with each pass over it: go on while it does.
    for (std::uint64_t before = ~std::uint64_t{0}; before != ring->tail.load(std::memory_order_relaxed);) {
      before = ring->tail.load(std::memory_order_relaxed);
      hurry = harvest(*ring, k_window) || hurry;
    }
    if (!beyond_window) continue;
    const std::uint64_t tail = ring->tail.load(std::memory_order_relaxed);
    if (ring->stuck_at == tail && ring->under_way() > k_window) hurry = harvest(*ring, ring->size) || hurry;
    ring->stuck_at = tail;
  }
  m_hurry.store(hurry, std::memory_order_relaxed);
}

void Profiler::end() noexcept {
  // Late only where the runtime itself does not answer: then the signals are its to count.
  if (!m_thread.ended(capture::k_end_limit)) return;
  const std::lock_guard lock(m_mutex);
  for (const auto& ring : m_rings) {
    (void)harvest(*ring, ring->size);
    for (std::uint32_t i = 0; i < ring->size; ++i) {
      // The device may still write to that of a dispatch under way.
      PendingRing::Entry& entry = ring->entries[i];
      if (!entry.waiting.load(std::memory_order_relaxed)) api().core.hsa_signal_destroy_fn(entry.ours);
    }
  }
}

void Profiler::run() noexcept {
  timespec pause{0, k_soon_ns};
  std::uint64_t seen = 0;
  while (enabled()) {
    harvest_all(true);
    const std::uint64_t records = tool()->channel->control().record_head.load(std::memory_order_relaxed);
    pause.tv_nsec = records != seen ? k_soon_ns : std::min(2 * pause.tv_nsec, k_calm_ns);
    if (m_hurry.load(std::memory_order_relaxed)) pause.tv_nsec = k_hurry_ns;
    seen = records;
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace kerncap::hsa
