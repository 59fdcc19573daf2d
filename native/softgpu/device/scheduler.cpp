#include "softgpu/device/scheduler.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "softgpu/device/clock.hpp"
#include "softgpu/device/service_thread.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_spin_ns = 20'000;
constexpr std::uint64_t k_short_sleep_ns = 20'000;
constexpr std::uint64_t k_busy_sleep_ns = 100'000;  // at most, while doorbells are not watched
constexpr std::uint64_t k_max_poll_ns = 1'000'000;
constexpr std::uint64_t k_forever = ~std::uint64_t{0};

}  // namespace

void Runner::add(std::shared_ptr<Queue> queue) {
  const std::lock_guard lock(m_mutex);
  m_queues.push_back(std::move(queue));
  if (!std::exchange(m_started, true)) start_service_thread("softgpu-queues", [this] { run(); });
}

void Runner::remove(const Queue* queue) {
  const std::lock_guard lock(m_mutex);
  std::erase_if(m_queues, [&](const std::shared_ptr<Queue>& q) { return q.get() == queue; });
}

void Runner::wake() noexcept {
  m_wakes.fetch_add(1);
  if (m_asleep.load()) syscall(SYS_futex, &m_wakes, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Runner::sleep(std::uint32_t seen, std::uint64_t timeout_ns) noexcept {
  m_asleep.store(true);
  timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000), static_cast<long>(timeout_ns % 1'000'000'000)};
  syscall(SYS_futex, &m_wakes, FUTEX_WAIT_PRIVATE, seen, timeout_ns == k_forever ? nullptr : &timeout, nullptr, 0);
  m_asleep.store(false);
}

Queue::Progress Runner::step_all() {
  const std::lock_guard lock(m_mutex);
  Queue::Progress most = Queue::Progress::rests;
  for (const auto& queue : m_queues) most = std::min(most, queue->step());
  return most;
}

void Runner::run() {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // else a short sleep takes 50 us more
  std::uint64_t last_work = 0, pause = k_short_sleep_ns;
  std::uint32_t last_seen = 0;
  for (;;) {
    const std::uint32_t seen = m_wakes.load();
    Queue::Progress progress = step_all();
    const std::uint64_t now = read_clock_ns(CLOCK_MONOTONIC);
    if (progress == Queue::Progress::worked) {
      m_doorbells.note_work(now);
      last_work = now;
      pause = k_short_sleep_ns;
      continue;
    }
    if (now - last_work < k_spin_ns) {
      sched_yield();
      continue;
    }
    if (seen != last_seen) pause = k_short_sleep_ns;
    last_seen = seen;
    const DoorbellWatch::Watch watch = m_doorbells.arm(now);
    if (watch == DoorbellWatch::Watch::armed) {
      progress = step_all();
      if (progress == Queue::Progress::worked) continue;
    }
    if (watch == DoorbellWatch::Watch::armed && progress == Queue::Progress::rests) {
      sleep(seen, k_forever);
      continue;
    }
    sleep(seen, pause);
    pause = std::min(pause * 2, watch == DoorbellWatch::Watch::busy ? k_busy_sleep_ns : k_max_poll_ns);
  }
}

Scheduler::Scheduler() : m_doorbells([this] { wake(); }), m_kernels(m_doorbells), m_copies(m_doorbells) {}

void Scheduler::add(std::shared_ptr<Queue> queue, bool copies) {
  (copies ? m_copies : m_kernels).add(std::move(queue));
  wake();
}

void Scheduler::remove(const Queue* queue) {
  m_kernels.remove(queue);
  m_copies.remove(queue);
}

void Scheduler::wake() noexcept {
  m_kernels.wake();
  m_copies.wake();
}

}  // namespace kerncap::softgpu
