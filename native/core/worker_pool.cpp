// Items are large (a chunk each), so one lock for all of them is cheap.
#include "core/worker_pool.hpp"

#include <algorithm>
#include <chrono>

#include "core/interrupt.hpp"

namespace kerncap::core {
namespace {

constexpr std::chrono::milliseconds k_interrupt_poll{50};

}  // namespace

WorkerPool::WorkerPool(std::size_t threads)
    : m_size(threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency())) {}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(m_mutex);
    m_stop = true;
  }
  m_wake.notify_all();
  for (auto& thread : m_threads) thread.join();
}

void WorkerPool::run(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work) {
  if (count == 0) return;
  if (count == 1 || m_size == 1) {
    for (std::size_t item = 0; item < count; ++item) work(0, item);
    return;
  }
  while (m_threads.size() + 1 < m_size) {
    m_threads.emplace_back([this, worker = m_threads.size() + 1] { serve(worker); });
  }
  {
    const std::lock_guard lock(m_mutex);
    m_work = &work;
    m_count = count;
    m_next = 0;
    m_busy = 0;
    ++m_job;
  }
  m_wake.notify_all();
  take_items(0);
  std::unique_lock lock(m_mutex);
  // A worker may wait for the store's lock, and only the caller may be the thread that hears of interrupts.
  const InterruptWatch watch;
  while (!m_done.wait_for(lock, k_interrupt_poll, [this] { return m_busy == 0; })) {
    lock.unlock();
    (void)watch.interrupted();
    lock.lock();
  }
  m_work = nullptr;
}

void WorkerPool::take_items(std::size_t worker) {
  std::unique_lock lock(m_mutex);
  while (m_next < m_count) {
    const std::size_t item = m_next++;
    ++m_busy;
    lock.unlock();
    (*m_work)(worker, item);
    lock.lock();
    --m_busy;
  }
  if (m_busy == 0) m_done.notify_all();
}

void WorkerPool::serve(std::size_t worker) {
  std::size_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(m_mutex);
      m_wake.wait(lock, [&] { return m_stop || m_job != seen; });
      if (m_stop) return;
      seen = m_job;
    }
    take_items(worker);
  }
}

}  // namespace kerncap::core
