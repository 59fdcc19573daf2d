// Worker threads read and verify; this thread deals out buffers and talks to the driver.
#include "replay/restore.hpp"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "replay/chunk_fetcher.hpp"

namespace kerncap::replay {
namespace {

using core::Error;
using core::Result;

constexpr std::size_t k_no_buffer = ~std::size_t{0};
constexpr std::size_t k_staging_bytes = 64 << 20;      // of all buffers: a few for each worker, and some under way
constexpr std::size_t k_least_buffer_bytes = 1 << 20;
constexpr std::size_t k_least_buffers = 4;
constexpr std::size_t k_least_cleared_bytes = 64 << 10;  // fewer zeros are sent: that is done before a device has begun

class Restore {
 public:
  using Look = std::function<void(const Region&, std::span<std::byte>)>;

  Restore(const Plan& plan, std::shared_ptr<core::ObjectStore> store, Driver& driver, bool verify, Progress& progress,
          const Look& look)
      : m_plan(plan), m_driver(driver), m_progress(progress), m_look(look), m_fetcher(std::move(store), verify) {
    for (std::size_t i = 0; i < driver.opened().staging.count; ++i) m_idle.push_back(i);
    m_most_filling = std::min(2 * ChunkFetcher::worker_count(), m_idle.size() / 2);
  }

  Result<std::uint64_t> run() {
    std::uint64_t bytes = 0;
    std::uint64_t total = 0;
    for (const Region& region : m_plan.regions) total += region.pre == nullptr ? 0 : region.pre->bytes;
    for (std::size_t r = 0; r < m_plan.regions.size(); ++r) {
      const Memory* memory = m_plan.regions[r].pre;
      if (memory == nullptr) continue;
      for (std::size_t i = 0; i < memory->chunks.size(); ++i) {
        m_progress.tell("restore", bytes + ChunkJob{memory, i, r}.offset(), total);
        if (Result<void> begun = begin({memory, i, r, memory->is_verified}); !begun) return begun.error();
      }
      if (Result<void> cleared = clear(m_plan.regions[r]); !cleared) return cleared.error();
      bytes += memory->bytes;
    }
    while (m_started > 0) {
      if (Result<void> done = end_one(); !done) return done.error();
    }
    return bytes;
  }

 private:
  Result<void> begin(const ChunkJob& job) {
    const Region& region = m_plan.regions[job.owner];
    const Driver::InPlace here = m_driver.in_place(region.base + job.offset(), job.bytes());
    if (job.is_zero() && here.memory != nullptr && here.is_zero) return {};
    if (job.is_zero() && here.memory == nullptr && job.bytes() >= k_least_cleared_bytes) {
      m_zeros.push_back({job.offset(), job.bytes()});
      return {};
    }
    std::size_t buffer = k_no_buffer;
    std::byte* where = here.memory;
    if (where == nullptr) {
      while (m_filling >= m_most_filling) {
        if (Result<void> done = end_one(); !done) return done;
      }
      buffer = m_idle.front();
      m_idle.pop_front();
      ++m_filling;
      const Result<std::byte*> staging = m_driver.staging(buffer);
      if (!staging) return staging.error();
      where = staging.value();
    }
    m_fetcher.start({job, where, buffer, here.memory != nullptr});
    ++m_started;
    return {};
  }

  Result<void> end_one() {
    const Result<Fetch> done = m_fetcher.finish();
    --m_started;
    if (!done) return done.error();
    const Fetch& fetch = done.value();
    const Region& region = m_plan.regions[fetch.job.owner];
    if (!fetch.job.is_zero()) m_look(region, {fetch.where, fetch.job.bytes()});
    if (fetch.buffer == k_no_buffer) return {};
    --m_filling;
    m_idle.push_back(fetch.buffer);
    return m_driver.send(fetch.buffer, region, region.base + fetch.job.offset(), fetch.job.bytes());
  }

  // Zeros need not cross the bus: the device makes them, in as few pieces as there are gaps.
  Result<void> clear(const Region& region) {
    for (std::size_t i = 0; i < m_zeros.size();) {
      ByteRange run = m_zeros[i++];
      for (; i < m_zeros.size() && m_zeros[i].offset == run.offset + run.bytes; ++i) run.bytes += m_zeros[i].bytes;
      if (Result<void> cleared = m_driver.clear(region, region.base + run.offset, run.bytes); !cleared) return cleared;
    }
    m_zeros.clear();
    return {};
  }

  const Plan& m_plan;
  Driver& m_driver;
  Progress& m_progress;
  const Look& m_look;
  std::deque<std::size_t> m_idle;       // staging buffers, the one that was sent the longest ago first
  std::vector<ByteRange> m_zeros;       // of one region, to be cleared by the device
  std::size_t m_most_filling;           // buffers at the workers: the others are under way to the device
  std::size_t m_filling = 0;
  std::size_t m_started = 0;            // chunks at the workers
  ChunkFetcher m_fetcher;               // last: its threads write into the buffers
};

}  // namespace

Result<std::uint64_t> restore_regions(const Plan& plan, std::shared_ptr<core::ObjectStore> store, Driver& driver,
                                      bool verify, Progress& progress, const Restore::Look& look) {
  return Restore(plan, std::move(store), driver, verify, progress, look).run();
}

StagingShape staging_shape(const Plan& plan) {
  std::uint64_t longest = k_least_buffer_bytes;
  for (const auto& [name, memory] : plan.memories) longest = std::max(longest, std::min(memory.chunk_bytes, memory.bytes));
  return {std::max<std::size_t>(k_least_buffers, k_staging_bytes / longest), static_cast<std::size_t>(longest)};
}

}  // namespace kerncap::replay
