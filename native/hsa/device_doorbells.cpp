// Doorbells that kernels ring. OpenCL's enqueue_kernel() ends in a kernel that writes packets into a queue and stores
// to the queue's doorbell signal. That of an intercept queue is a copy of the signal that ROCr watches: a store of the
// host's is a call of ROCr, one of the device's changes the copy, and nobody looks. So a thread of ours does, and rings
// from the host, from the first dispatch of such a kernel on.
#include <time.h>

#include <algorithm>

#include "hsa/api.hpp"
#include "hsa/queues.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

// Kernels that enqueue others do it again and again: soon after one that did, else rarely.
constexpr long k_soon_ns = 50'000;
constexpr long k_calm_ns = 5'000'000;

std::int64_t* doorbell_of(const hsa_queue_t* handle) noexcept {
  auto* signal = reinterpret_cast<amd_signal_t*>(handle->doorbell_signal.handle);
  if (signal == nullptr || signal->kind != AMD_SIGNAL_KIND_USER) return nullptr;
  return const_cast<std::int64_t*>(&signal->value);
}

}  // namespace

void Queues::learn_doorbell(Queue& queue) noexcept {
  const std::int64_t* doorbell = doorbell_of(queue.handle);
  if (doorbell == nullptr) return;  // the device's own: no intercept queue of ROCr's
  queue.quiet_doorbell = __atomic_load_n(doorbell, __ATOMIC_RELAXED);
  queue.has_copied_doorbell = true;
}

// Without the lock, under which the thread rings, and so comes to callbacks of queues.
void Queues::watch_for_kernels() noexcept {
  if (m_watching.load(std::memory_order_relaxed) || m_watching.exchange(true)) return;
  const bool started =
      m_thread.start("kc-doorbells", [](void* self) { static_cast<Queues*>(self)->watch_doorbells(); }, this);
  if (!started) m_watching.store(false);
}

// Under the lock: a queue that is about to be destroyed is marked under it, too.
bool Queues::ring_for_the_device() noexcept {
  bool rung = false;
  const std::lock_guard lock(m_mutex);
  for (const auto& queue : m_queues) {
    if (!queue->has_copied_doorbell || queue->gone.load(std::memory_order_acquire)) continue;
    std::int64_t* doorbell = doorbell_of(queue->handle);
    if (__atomic_load_n(doorbell, __ATOMIC_ACQUIRE) == queue->quiet_doorbell) continue;
    const std::int64_t index = __atomic_exchange_n(doorbell, queue->quiet_doorbell, __ATOMIC_ACQ_REL);
    queue->rung_by_device.store(true, std::memory_order_release);
    api().core.hsa_signal_store_screlease_fn(queue->handle->doorbell_signal, index);
    rung = true;
  }
  return rung;
}

// OpenCL's queue for kernels is one that its host never submits to. Once a kernel has rung it, that is certain.
bool Queues::is_for_kernels(const Queue& queue) const noexcept {
  if (queue.rung_by_device.load(std::memory_order_acquire)) return true;
  return m_kernels_enqueue.load(std::memory_order_acquire) && !queue.used.load(std::memory_order_relaxed);
}

void Queues::watch_doorbells() noexcept {
  timespec pause{0, k_soon_ns};
  while (enabled()) {
    pause.tv_nsec = ring_for_the_device() ? k_soon_ns : std::min(2 * pause.tv_nsec, k_calm_ns);
    ::nanosleep(&pause, nullptr);
  }
}

void Queues::end() noexcept { (void)m_thread.ended(capture::k_end_limit); }

}  // namespace kerncap::hsa
