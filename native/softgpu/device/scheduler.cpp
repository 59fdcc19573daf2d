#include "softgpu/device/scheduler.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "softgpu/device/clock.hpp"
#include "softgpu/device/service_thread.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_spin_ns = 20'000;
constexpr std::uint64_t k_linger_ns = 200'000;
constexpr std::uint64_t k_linger_sleep_ns = 20'000;
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
  std::uint64_t last_work = 0, pause = k_linger_sleep_ns;
  for (;;) {
    const std::uint32_t seen = m_wakes.load();
    Queue::Progress progress = step_all();
    const std::uint64_t now = read_clock_ns(CLOCK_MONOTONIC);
    if (progress == Queue::Progress::worked) {
      last_work = now;
      pause = k_linger_sleep_ns;
      continue;
    }
    if (now - last_work < k_spin_ns) {
      sched_yield();
      continue;
    }
    if (now - last_work < k_linger_ns) {
      sleep(seen, k_linger_sleep_ns);
      continue;
    }
    const bool watched = m_doorbells.arm();
    if (watched) {
      progress = step_all();
      if (progress == Queue::Progress::worked) continue;
    }
    sleep(seen, watched && progress == Queue::Progress::rests ? k_forever : pause);
    pause = std::min(pause * 2, k_max_poll_ns);
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
