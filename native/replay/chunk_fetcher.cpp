// A chunk is a mebibyte and more: one lock for all threads is cheap.
#include "replay/chunk_fetcher.hpp"

#include <cstring>
#include <utility>

#include "replay/populate.hpp"

namespace kerncap::replay {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr unsigned k_most_workers = 32;  // memory is the limit long before

Result<void> read_chunk(const core::ObjectStore& store, const Fetch& fetch, bool verify, core::ReadBuffers& buffers) {
  const auto& [job, where, buffer, is_new] = fetch;
  if (job.is_zero()) {
    std::memset(where, 0, job.bytes());
    return {};
  }
  const auto name = core::Digest::from_hex(job.digest());
  if (!name) return Error{ErrorCode::invalid_argument, "not a digest: " + job.digest()};
  if (is_new) populate(where, job.bytes());
  return store.read(*name, {where, job.bytes()}, verify && !job.is_verified, buffers);
}

}  // namespace

std::size_t ChunkFetcher::worker_count() { return std::clamp(std::thread::hardware_concurrency(), 1u, k_most_workers); }

ChunkFetcher::ChunkFetcher(std::shared_ptr<core::ObjectStore> store, bool verify)
    : m_store(std::move(store)), m_verify(verify) {
  for (std::size_t i = 0; i < worker_count(); ++i) m_threads.emplace_back([this] { work(); });
}

ChunkFetcher::~ChunkFetcher() {
  {
    const std::lock_guard lock(m_mutex);
    m_stop = true;
  }
  m_started.notify_all();
  for (std::thread& thread : m_threads) thread.join();
}

void ChunkFetcher::start(const Fetch& fetch) {
  {
    const std::lock_guard lock(m_mutex);
    m_todo.push_back(fetch);
  }
  m_started.notify_one();
}

Result<Fetch> ChunkFetcher::finish() {
  std::unique_lock lock(m_mutex);
  m_finished.wait(lock, [this] { return !m_done.empty(); });
  Result<Fetch> done = std::move(m_done.front());
  m_done.pop_front();
  return done;
}

void ChunkFetcher::work() {
  core::ReadBuffers buffers;
  std::unique_lock lock(m_mutex);
  for (;;) {
    m_started.wait(lock, [this] { return m_stop || !m_todo.empty(); });
    if (m_stop) return;
    const Fetch fetch = m_todo.front();
    m_todo.pop_front();
    lock.unlock();
    const Result<void> read = read_chunk(*m_store, fetch, m_verify, buffers);
    lock.lock();
    m_done.push_back(read ? Result<Fetch>(fetch) : Result<Fetch>(read.error()));
    m_finished.notify_one();
  }
}

Result<void> for_each_chunk(std::shared_ptr<core::ObjectStore> store, const std::vector<ChunkJob>& jobs,
                            const std::function<Result<void>(const ChunkJob&, std::span<const std::byte>)>& use, bool verify) {
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };
  std::vector<Buffer> buffers(2 * ChunkFetcher::worker_count());
  ChunkFetcher fetcher(std::move(store), verify);  // goes first: its threads write into the buffers
  const auto start = [&](std::size_t next, std::size_t buffer) {
    auto& [memory, bytes] = buffers[buffer];
    if (jobs[next].bytes() > bytes) {
      bytes = jobs[next].bytes();
      memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    }
    fetcher.start({jobs[next], memory.get(), buffer});
  };
  std::size_t next = 0;
  for (; next < std::min(jobs.size(), buffers.size()); ++next) start(next, next);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Result<Fetch> done = fetcher.finish();
    if (!done) return done.error();
    const Fetch& fetch = done.value();
    if (Result<void> used = use(fetch.job, {fetch.where, fetch.job.bytes()}); !used) return used;
    if (next < jobs.size()) start(next++, fetch.buffer);
  }
  return {};
}

Result<std::vector<std::byte>> read_memory(const core::ObjectStore& store, const Memory& memory) {
  std::vector<std::byte> data(memory.bytes);
  core::ReadBuffers buffers;
  for (std::size_t i = 0; i < memory.chunks.size(); ++i) {
    const ChunkJob job{&memory, i, 0};
    if (Result<void> read = read_chunk(store, {job, &data[job.offset()], 0}, true, buffers); !read) return read.error();
  }
  return data;
}

bool is_chunk(std::span<const std::byte> data, const std::string& digest) {
  const bool is_zero = std::all_of(data.begin(), data.end(), [](std::byte byte) { return byte == std::byte{0}; });
  return is_zero ? digest.empty() : core::digest_of(data).hex() == digest;
}

}  // namespace kerncap::replay
