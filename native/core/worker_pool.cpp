// Items are large (a chunk each), so one lock for all of them is cheap.
#include "core/worker_pool.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

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

void WorkerPool::run(std::size_t count, const Work& work) {
  if (count == 1 || m_size == 1) {
    for (std::size_t item = 0; item < count; ++item) work(0, item);
    return;
  }
  finish(*start(count, work));
}

std::shared_ptr<WorkerPool::Job> WorkerPool::start(std::size_t count, Work work) {
  auto job = std::make_shared<Job>(std::move(work), count);
  if (count == 0) return job;
  while (m_threads.size() + 1 < m_size) {
    m_threads.emplace_back([this, worker = m_threads.size() + 1] { serve(worker); });
  }
  {
    const std::lock_guard lock(m_mutex);
    m_jobs.push_back(job);
    m_undone += count;
  }
  m_wake.notify_all();
  return job;
}

void WorkerPool::finish(const Job& job) {
  std::unique_lock lock(m_mutex);
  while (job.next < job.count) take_item(0, lock);
  wait_until([&] { return job.done == job.count; }, lock);
}

void WorkerPool::settle() {
  std::unique_lock lock(m_mutex);
  while (!m_jobs.empty()) take_item(0, lock);
  wait_until([this] { return m_undone == 0; }, lock);
}

void WorkerPool::wait_until(const std::function<bool()>& is_done, std::unique_lock<std::mutex>& lock) {
  // A worker may wait for the store's lock, and only the caller may be the thread that hears of interrupts.
  const InterruptWatch watch;
  while (!m_done.wait_for(lock, k_interrupt_poll, is_done)) {
    lock.unlock();
    (void)watch.interrupted();
    lock.lock();
  }
}

void WorkerPool::take_item(std::size_t worker, std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Job> job = m_jobs.front();
  const std::size_t item = job->next++;
  if (job->next == job->count) m_jobs.pop_front();
  lock.unlock();
  job->work(worker, item);
  lock.lock();
  --m_undone;
  if (++job->done == job->count) m_done.notify_all();
}

void WorkerPool::serve(std::size_t worker) {
  std::unique_lock lock(m_mutex);
  for (;;) {
    m_wake.wait(lock, [this] { return m_stop || !m_jobs.empty(); });
    if (m_stop) return;
    take_item(worker, lock);
  }
}

}  // namespace kerncap::core
