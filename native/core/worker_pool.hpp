// A few threads that share out the items of jobs, the oldest job first.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace kerncap::core {

class WorkerPool {
 public:
  using Work = std::function<void(std::size_t worker, std::size_t item)>;
  struct Job {
    Work work;
    std::size_t count = 0;
    std::size_t next = 0;   // the first item that nobody has taken; guarded by the pool, as is the next
    std::size_t done = 0;
  };

  // `threads` 0 means as many as there are processors. Threads start with the first job that needs them.
  explicit WorkerPool(std::size_t threads = 0);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  // Every job has been finished.
  ~WorkerPool();

  [[nodiscard]] std::size_t size() const noexcept { return m_size; }

  // Calls `work(worker, item)` for items 0 to count - 1, in order of start, and returns when all are done. The
  // caller is worker 0; no two calls with the same worker overlap. One thread at a time runs or finishes.
  void run(std::size_t count, const Work& work);

  // The same in two steps: the other threads begin at once, and the caller joins them when it wants the end. What was
  // started later is begun where nothing is left of what came before: no thread waits for the last one of a job.
  [[nodiscard]] std::shared_ptr<Job> start(std::size_t count, Work work);
  void finish(const Job& job);
  // All that was started.
  void settle();

 private:
  void serve(std::size_t worker);
  void wait_until(const std::function<bool()>& is_done, std::unique_lock<std::mutex>& lock);
  void take_item(std::size_t worker, std::unique_lock<std::mutex>& lock);

  std::size_t m_size;
  std::vector<std::thread> m_threads;
  std::mutex m_mutex;
  std::condition_variable m_wake;
  std::condition_variable m_done;
  std::deque<std::shared_ptr<Job>> m_jobs;  // those with items that nobody has taken
  std::size_t m_undone = 0;                 // items, of all jobs
  bool m_stop = false;
};

}  // namespace kerncap::core
