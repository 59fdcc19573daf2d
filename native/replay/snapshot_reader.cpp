// A small pipeline: worker threads read and verify chunks into a ring of buffers, the caller's thread uses them.
#include "replay/snapshot_reader.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

namespace kerncap::replay {
namespace {

using core::Error;
using core::Result;

class Pipeline {
 public:
  Pipeline(std::shared_ptr<core::ObjectStore> store, const std::vector<ChunkJob>& jobs, bool verify)
      : m_store(std::move(store)), m_jobs(jobs), m_verify(verify), m_slots(2 * worker_count() + 2) {
    for (unsigned i = 0; i < worker_count(); ++i) m_threads.emplace_back([this] { work(); });
  }
  ~Pipeline() {
    {
      const std::lock_guard lock(m_mutex);
      m_stop = true;
      m_changed.notify_all();
    }
    for (std::thread& thread : m_threads) thread.join();
  }

  // The data of job `index`; valid until `done(index)`.
  Result<std::span<const std::byte>> wait(std::size_t index) {
    std::unique_lock lock(m_mutex);
    Slot& slot = m_slots[index % m_slots.size()];
    m_changed.wait(lock, [&] { return slot.holds == index; });
    if (slot.error) return *slot.error;
    return std::span<const std::byte>(slot.data);
  }
  void done(std::size_t index) {
    const std::lock_guard lock(m_mutex);
    m_slots[index % m_slots.size()].holds = k_none;
    ++m_used;
    m_changed.notify_all();
  }

 private:
  static constexpr std::size_t k_none = ~std::size_t{0};
  struct Slot {
    std::size_t holds = k_none;
    std::vector<std::byte> data;
    std::optional<Error> error;
  };
  static unsigned worker_count() { return std::clamp(std::thread::hardware_concurrency(), 1u, 16u); }

  void work() {
    ChunkReader reader(m_store, m_verify);
    for (;;) {
      std::size_t index;
      {
        std::unique_lock lock(m_mutex);
        m_changed.wait(lock, [&] { return m_stop || m_next >= m_jobs.size() || m_next < m_used + m_slots.size(); });
        if (m_stop || m_next >= m_jobs.size()) return;
        index = m_next++;
      }
      Slot& slot = m_slots[index % m_slots.size()];
      const ChunkJob& job = m_jobs[index];
      slot.data.resize(job.bytes());
      slot.error.reset();
      if (job.is_zero()) {
        std::memset(slot.data.data(), 0, slot.data.size());
      } else if (Result<void> read = reader.read(job.memory->chunks[job.index], slot.data); !read) {
        slot.error = read.error();
      }
      const std::lock_guard lock(m_mutex);
      slot.holds = index;
      m_changed.notify_all();
    }
  }

  std::shared_ptr<core::ObjectStore> m_store;
  const std::vector<ChunkJob>& m_jobs;
  const bool m_verify;
  std::mutex m_mutex;
  std::condition_variable m_changed;
  std::vector<Slot> m_slots;
  std::size_t m_next = 0;               // the first job that no worker has
  std::size_t m_used = 0;               // jobs that the caller is done with
  bool m_stop = false;
  std::vector<std::thread> m_threads;
};

}  // namespace

Result<void> for_each_chunk(std::shared_ptr<core::ObjectStore> store, const std::vector<ChunkJob>& jobs,
                            const std::function<Result<void>(const ChunkJob&, std::span<const std::byte>)>& use,
                            bool verify) {
  Pipeline pipeline(std::move(store), jobs, verify);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Result<std::span<const std::byte>> data = pipeline.wait(i);
    if (!data) return data.error();
    if (Result<void> used = use(jobs[i], data.value()); !used) return used;
    pipeline.done(i);
  }
  return {};
}

Result<std::vector<std::byte>> read_memory(std::shared_ptr<core::ObjectStore> store, const Memory& memory) {
  std::vector<std::byte> data(memory.bytes);
  ChunkReader reader(std::move(store), true);
  for (std::size_t i = 0; i < memory.chunks.size(); ++i) {
    const ChunkJob job{&memory, i, 0};
    if (job.is_zero()) continue;
    const std::span<std::byte> part(&data[job.offset()], job.bytes());
    if (Result<void> read = reader.read(memory.chunks[i], part); !read) return read.error();
  }
  return data;
}

}  // namespace kerncap::replay
