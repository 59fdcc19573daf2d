// A few threads that share out the items of one job at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kerncap::core {

class WorkerPool {
 public:
  // `threads` 0 means as many as there are processors. Threads start with the first job that needs them.
  explicit WorkerPool(std::size_t threads = 0);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  [[nodiscard]] std::size_t size() const noexcept { return m_size; }

  // Calls `work(worker, item)` for items 0 to count - 1, in order of start, and returns when all are done. The
  // caller is worker 0; no two calls with the same worker overlap. One job at a time.
  void run(std::size_t count, const std::function<void(std::size_t worker, std::size_t item)>& work);

 private:
  void serve(std::size_t worker);
  void take_items(std::size_t worker);

  std::size_t m_size;
  std::vector<std::thread> m_threads;
  std::mutex m_mutex;
  std::condition_variable m_wake;
  std::condition_variable m_done;
  const std::function<void(std::size_t, std::size_t)>* m_work = nullptr;
  std::size_t m_count = 0;
  std::size_t m_next = 0;
  std::size_t m_busy = 0;
  std::size_t m_job = 0;
  bool m_stop = false;
};

}  // namespace kerncap::core
