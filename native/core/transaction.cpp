// Each payload is hashed, looked up and, only if it is new, compressed and written. docs/store.md, "Writing".
#include "core/transaction.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/file.hpp"

namespace kerncap::core {
namespace {

constexpr std::size_t k_file_piece_bytes = 1024 * 1024;
constexpr std::size_t k_whole_file_bytes = 8 * 1024 * 1024;  // smaller files go the way of chunks: probed
constexpr std::size_t k_zero_block_bytes = 4096;

}  // namespace

bool all_zero(std::span<const std::byte> bytes) noexcept {
  // A block without a branch compiles to vector instructions, and the first block that is not zero ends it.
  while (!bytes.empty()) {
    const auto block = bytes.first(std::min(bytes.size(), k_zero_block_bytes));
    std::uint64_t seen = 0;
    std::size_t i = 0;
    for (; i + sizeof seen <= block.size(); i += sizeof seen) {
      std::uint64_t word;
      std::memcpy(&word, block.data() + i, sizeof word);
      seen |= word;
    }
    for (; i < block.size(); ++i) seen |= std::to_integer<std::uint64_t>(block[i]);
    if (seen != 0) return false;
    bytes = bytes.subspan(block.size());
  }
  return true;
}

Transaction::Transaction(std::shared_ptr<ObjectStore> store, std::size_t threads)
    : m_store(std::move(store)), m_pool(threads), m_workers(m_pool.size()) {}

Result<std::unique_ptr<Transaction>> Transaction::begin(std::shared_ptr<ObjectStore> store, std::size_t threads) {
  auto transaction = std::unique_ptr<Transaction>(new Transaction(std::move(store), threads));
  auto staging = Staging::make(*transaction->m_store);
  if (!staging) return transaction->fail(staging.error());
  transaction->m_staging = std::move(staging).value();
  return transaction;
}

// Once something could not be written, objects that others rely on may be absent: nothing more is published.
Error Transaction::fail(const Error& error) {
  const std::lock_guard lock(m_mutex);
  const bool foreign = error.code == ErrorCode::damaged || error.code == ErrorCode::not_found;
  if (!m_failure) m_failure = foreign ? error : m_store->about(error);
  return *m_failure;
}

void Transaction::discard() {
  const std::lock_guard call(m_call);
  (void)fail({ErrorCode::invalid_argument, "the transaction has ended"});
  m_pool.settle();  // what was started and is not begun comes to nothing
  m_staging.reset();
}

Result<void> Transaction::still_good() const {
  const std::lock_guard lock(m_mutex);
  if (m_failure) return *m_failure;
  return {};
}

// Looks under the shared lock: what is there and pinned then stays while we live.
Result<bool> Transaction::pin_if_stored(const Digest& digest) {
  if (!m_store->has(digest)) return false;  // the common case costs no lock
  auto lock = m_store->lock().shared();
  if (!lock) return lock.error();
  if (!m_store->has(digest)) return false;
  if (auto status = m_staging->pin(std::span(&digest, 1)); !status) return status.error();
  return true;
}

// True for the one caller that has to store the object.
Result<bool> Transaction::claim(const Digest& digest, std::uint64_t payload_bytes) {
  {
    const std::lock_guard lock(m_mutex);
    if (m_failure) return *m_failure;
    if (!m_claimed.insert(digest).second) {
      m_counts.known_bytes += payload_bytes;
      return false;
    }
  }
  auto pinned = pin_if_stored(digest);
  if (!pinned) return fail(pinned.error());
  if (pinned.value()) {
    const std::lock_guard lock(m_mutex);
    m_counts.known_bytes += payload_bytes;
  }
  return !pinned.value();
}

void Transaction::staged(const Digest& digest, Level level, std::uint64_t payload_bytes, std::uint64_t stored_bytes) {
  const std::lock_guard lock(m_mutex);
  m_staged.push_back({digest, level});
  m_counts.new_bytes += payload_bytes;
  m_counts.stored_bytes += stored_bytes;
}

Result<Digest> Transaction::put(std::span<const std::byte> payload, Level level) {
  const std::lock_guard call(m_call);
  return put_by(m_workers[0].writer, payload, level);
}

Result<Digest> Transaction::put_by(FrameWriter& writer, std::span<const std::byte> payload, Level level) {
  const Digest digest = digest_of(payload);
  auto ours = claim(digest, payload.size());
  if (!ours) return ours.error();
  if (!ours.value()) return digest;
  const std::string name = digest.hex();
  auto file = m_staging->create(name);
  if (!file) return fail(file.error());
  auto stored = writer.write(file.value().get(), payload);
  if (!stored) return fail(stored.error());
  staged(digest, level, payload.size(), stored.value());
  return digest;
}

Result<Digest> Transaction::put_file(const std::string& path) {
  auto source = open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0, Links::follow);
  if (!source) return source.error();
  struct stat status {};
  if (::fstat(source.value().get(), &status) != 0) return errno_error("cannot stat " + path, errno);
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::invalid_argument, path + " is not a regular file"};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > k_whole_file_bytes) {
    const std::lock_guard call(m_call);
    return put_large_file(path, source.value().get(), size);
  }
  std::vector<std::byte> content(size);
  auto read = read_fully(source.value().get(), content, path);
  if (!read) return read.error();
  if (read.value() != size) return Error{ErrorCode::io, path + " became shorter while it was read"};
  return put(content, Level::leaf);
}

Result<Digest> Transaction::put_large_file(const std::string& path, int source, std::uint64_t size_bytes) {
  static constexpr char k_draft[] = "file";
  if (auto status = still_good(); !status) return status.error();
  m_staging->drop(k_draft);  // left by a file that could not be read to its end
  auto file = m_staging->create(k_draft);
  if (!file) return fail(file.error());
  FrameWriter& writer = m_workers[0].writer;
  if (auto begun = writer.begin(size_bytes); !begun) return fail(begun.error());
  std::vector<std::byte> piece(k_file_piece_bytes);
  Hasher hasher;
  std::uint64_t done = 0;
  std::uint64_t stored = 0;
  while (done < size_bytes) {
    const auto wanted = std::span(piece).first(std::min<std::uint64_t>(piece.size(), size_bytes - done));
    auto count = read_fully(source, wanted, path);
    if (!count) return count.error();
    if (count.value() != wanted.size()) return Error{ErrorCode::io, path + " became shorter while it was read"};
    done += wanted.size();
    hasher.update(wanted);
    auto packed = writer.append(file.value().get(), wanted, done == size_bytes);
    if (!packed) return fail(packed.error());
    stored += packed.value();
  }
  const Digest digest = hasher.finish();
  auto ours = claim(digest, size_bytes);
  if (!ours) return ours.error();
  if (!ours.value()) {
    m_staging->drop(k_draft);
    return digest;
  }
  if (auto status = m_staging->keep(k_draft, digest); !status) return fail(status.error());
  staged(digest, Level::leaf, size_bytes, stored);
  return digest;
}

Result<void> Transaction::adopt(int fd, std::span<const ForeignFrame> frames) {
  const std::lock_guard call(m_call);
  m_pool.run(frames.size(), [&](std::size_t worker, std::size_t item) {
    // A failure is kept, and ends what follows.
    (void)adopt_one(fd, frames[item], m_workers[worker].buffers);
  });
  return still_good();
}

Result<void> Transaction::adopt_one(int fd, const ForeignFrame& frame, ReadBuffers& buffers) {
  auto ours = claim(frame.digest, 0);
  if (!ours) return ours.error();
  if (!ours.value()) return {};
  auto file = m_staging->create(frame.digest.hex());
  if (!file) return fail(file.error());
  if (auto copied = copy_range(fd, frame.offset, frame.bytes, file.value().get()); !copied) {
    return fail(named(frame.digest, copied.error()));
  }
  auto payload_bytes = verify_file(file.value().get(), frame.digest, buffers);
  if (!payload_bytes) return fail(named(frame.digest, payload_bytes.error()));
  staged(frame.digest, Level::leaf, payload_bytes.value(), frame.bytes);
  return {};
}

Result<void> Transaction::put_chunks(std::span<const std::byte> memory, ChunkDigests& digests) {
  const std::size_t before = digests.size();
  digests.resize(before + memory.size() / k_chunk_bytes + (memory.size() % k_chunk_bytes != 0));
  return finish_chunks(*start_chunks(memory, std::span(digests).subspan(before)));
}

std::shared_ptr<Transaction::Chunks> Transaction::start_chunks(std::span<const std::byte> memory,
                                                               std::span<ChunkDigest> digests) {
  const std::lock_guard call(m_call);
  return m_pool.start(digests.size(), [this, memory, digests](std::size_t worker, std::size_t item) {
    const std::size_t start = item * k_chunk_bytes;
    put_chunk(worker, memory.subspan(start, std::min(k_chunk_bytes, memory.size() - start)), digests[item]);
  });
}

void Transaction::put_chunk(std::size_t worker, std::span<const std::byte> chunk, ChunkDigest& digest) {
  if (!still_good()) return;
  if (all_zero(chunk)) {
    const std::lock_guard lock(m_mutex);
    m_counts.zero_bytes += chunk.size();
  } else if (auto put = put_by(m_workers[worker].writer, chunk, Level::leaf); put) {
    digest = put.value();
  }
}

Result<void> Transaction::finish_chunks(const Chunks& chunks) {
  const std::lock_guard call(m_call);
  m_pool.finish(chunks);
  return still_good();
}

Result<std::vector<Digest>> Transaction::require(std::span<const Digest> digests) {
  const std::lock_guard call(m_call);
  if (auto status = still_good(); !status) return status.error();
  std::vector<Digest> missing;
  std::vector<Digest> found;
  auto lock = m_store->lock().shared();
  if (!lock) return lock.error();
  for (const Digest& digest : digests) {
    {
      const std::lock_guard guard(m_mutex);
      if (m_claimed.contains(digest)) continue;
    }
    (m_store->has(digest) ? found : missing).push_back(digest);
  }
  if (auto status = m_staging->pin(found); !status) return fail(status.error());
  const std::lock_guard guard(m_mutex);
  m_claimed.insert(found.begin(), found.end());
  return missing;
}

Result<std::vector<std::byte>> Transaction::read(const Digest& digest, std::uint64_t most_bytes) {
  const std::lock_guard call(m_call);
  if (auto status = still_good(); !status) return status.error();
  ReadBuffers buffers;
  return m_store->read_whole(digest, most_bytes, true, buffers, m_staging->folder());
}

Result<void> Transaction::publish(std::span<const ArtifactLine> lines, std::span<const Digest> needed) {
  const std::lock_guard call(m_call);
  if (auto status = still_good(); !status) return status;
  std::vector<StagedObject> objects;
  {
    const std::lock_guard lock(m_mutex);
    objects.swap(m_staged);
  }
  if (auto status = m_staging->publish(objects, lines, needed, m_pool); !status) return fail(status.error());
  return {};
}

WriteCounts Transaction::counts() const {
  const std::lock_guard lock(m_mutex);
  return m_counts;
}

}  // namespace kerncap::core
