// Staging and publishing. The order of the steps is the guarantee: docs/store.md, "Writing".
#include "core/transaction.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "core/file.hpp"

namespace kerncap::core {
namespace {

constexpr std::size_t k_file_piece_bytes = 1024 * 1024;
constexpr std::size_t k_whole_file_bytes = 8 * 1024 * 1024;  // smaller files go the way of chunks: probed

std::string random_name() {
  unsigned char bytes[12];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return {};
  char text[2 * sizeof bytes + 1];
  for (std::size_t i = 0; i < sizeof bytes; ++i) std::snprintf(text + 2 * i, 3, "%02x", bytes[i]);
  return text;
}

}  // namespace

bool all_zero(std::span<const std::byte> bytes) noexcept {
  // Comparing a range with itself one byte on is the C library's fastest loop.
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

Transaction::Transaction(std::shared_ptr<ObjectStore> store, std::size_t threads)
    : m_store(std::move(store)), m_pool(threads), m_workers(m_pool.size()) {}

Result<std::unique_ptr<Transaction>> Transaction::begin(std::shared_ptr<ObjectStore> store, std::size_t threads) {
  auto transaction = std::unique_ptr<Transaction>(new Transaction(std::move(store), threads));
  if (auto status = transaction->open_staging(); !status) return status.error();
  return transaction;
}

Result<void> Transaction::open_staging() {
  auto lock = open_at(m_store->folder(), "lock", O_RDONLY);
  if (!lock) return lock.error();
  m_lock = std::move(lock).value();
  while (::flock(m_lock.get(), LOCK_SH) != 0) {
    if (errno != EINTR) return errno_error("cannot lock the store", errno);
  }
  auto transactions = open_at(m_store->folder(), "tmp", O_DIRECTORY);
  if (!transactions) return transactions.error();
  m_transactions = std::move(transactions).value();
  m_name = random_name();
  if (m_name.empty()) return errno_error("no random numbers", errno);
  if (auto status = make_folder(m_transactions.get(), m_name); !status) {
    m_name.clear();
    return status.error();
  }
  auto staging = open_at(m_transactions.get(), m_name, O_DIRECTORY);
  if (!staging) return staging.error();
  m_staging = std::move(staging).value();
  auto live = open_at(m_staging.get(), "live", O_RDWR | O_CREAT | O_EXCL, 0600);
  if (!live) return live.error();
  m_live = std::move(live).value();
  if (::flock(m_live.get(), LOCK_EX | LOCK_NB) != 0) return errno_error("cannot lock a new transaction", errno);
  return {};
}

Transaction::~Transaction() { discard(); }

void Transaction::discard() noexcept {
  if (m_name.empty()) return;
  for (const Digest& digest : m_staged) ::unlinkat(m_staging.get(), digest.hex().c_str(), 0);
  for (unsigned i = 0; i < m_files; ++i) ::unlinkat(m_staging.get(), ("file-" + std::to_string(i)).c_str(), 0);
  ::unlinkat(m_staging.get(), "live", 0);
  ::unlinkat(m_transactions.get(), m_name.c_str(), AT_REMOVEDIR);
}

// True for the one caller that has to store the object.
bool Transaction::claim(const Digest& digest, std::size_t payload_bytes) {
  {
    const std::lock_guard lock(m_mutex);
    if (!m_claimed.insert(digest).second) {
      m_counts.known_bytes += payload_bytes;
      return false;
    }
  }
  if (!m_store->has(digest)) return true;
  add(&WriteCounts::known_bytes, payload_bytes);
  return false;
}

void Transaction::forget(const Digest& digest) {
  const std::lock_guard lock(m_mutex);
  m_claimed.erase(digest);
}

void Transaction::add(std::uint64_t WriteCounts::*counter, std::uint64_t bytes) {
  const std::lock_guard lock(m_mutex);
  m_counts.*counter += bytes;
}

Result<Digest> Transaction::put(std::span<const std::byte> payload) { return put_by(m_workers[0], payload); }

Result<Digest> Transaction::put_by(Worker& worker, std::span<const std::byte> payload) {
  const Digest digest = digest_of(payload);
  if (claim(digest, payload.size())) {
    if (auto status = store_frame(worker, digest, payload); !status) {
      forget(digest);
      return status.error();
    }
  }
  return digest;
}

Result<void> Transaction::store_frame(Worker& worker, const Digest& digest, std::span<const std::byte> payload) {
  const std::string name = digest.hex();
  auto file = open_at(m_staging.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0400);
  if (!file) return file.error();
  auto stored = worker.writer.write(file.value().get(), payload);
  if (!stored) {
    ::unlinkat(m_staging.get(), name.c_str(), 0);
    return stored.error();
  }
  const std::lock_guard lock(m_mutex);
  m_staged.push_back(digest);
  m_counts.new_bytes += payload.size();
  m_counts.stored_bytes += stored.value();
  return {};
}

Result<Digest> Transaction::put_file(const std::string& path) {
  auto source = open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
  if (!source) return source.error();
  struct stat status {};
  if (::fstat(source.value().get(), &status) != 0) return errno_error("cannot stat " + path, errno);
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::invalid_argument, path + " is not a regular file"};
  const auto size = static_cast<std::size_t>(status.st_size);
  std::vector<std::byte> piece(std::min(size, size <= k_whole_file_bytes ? size : k_file_piece_bytes));
  if (size <= k_whole_file_bytes) {
    auto whole = read_file(AT_FDCWD, path, piece, size);
    if (!whole) return whole.error();
    return put(whole.value());
  }
  const std::string name = "file-" + std::to_string(m_files++);
  auto file = open_at(m_staging.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0400);
  if (!file) return file.error();
  FrameWriter& writer = m_workers[0].writer;
  if (auto begun = writer.begin(size); !begun) return begun.error();
  Hasher hasher;
  std::size_t done = 0;
  std::size_t stored = 0;
  while (done < size) {
    const ssize_t count = ::read(source.value().get(), piece.data(), std::min(piece.size(), size - done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("cannot read " + path, errno);
    if (count == 0) return Error{ErrorCode::io, path + " became shorter while it was read"};
    const auto bytes = std::span<const std::byte>(piece).first(static_cast<std::size_t>(count));
    done += bytes.size();
    hasher.update(bytes);
    auto packed = writer.append(file.value().get(), bytes, done == size);
    if (!packed) return packed.error();
    stored += packed.value();
  }
  const Digest digest = hasher.finish();
  if (!claim(digest, size)) {
    ::unlinkat(m_staging.get(), name.c_str(), 0);
    return digest;
  }
  if (::renameat(m_staging.get(), name.c_str(), m_staging.get(), digest.hex().c_str()) != 0) {
    forget(digest);
    return errno_error("cannot rename a staged file", errno);
  }
  const std::lock_guard lock(m_mutex);
  m_staged.push_back(digest);
  m_counts.new_bytes += size;
  m_counts.stored_bytes += stored;
  return digest;
}

Result<void> Transaction::adopt(int fd, std::uint64_t offset, std::uint64_t bytes, const Digest& digest) {
  if (!claim(digest, 0)) return {};
  const std::string name = digest.hex();
  auto file = open_at(m_staging.get(), name, O_RDWR | O_CREAT | O_EXCL, 0400);
  if (!file) return file.error();
  auto adopted = copy_range(fd, offset, bytes, file.value().get());
  if (adopted && ::lseek(file.value().get(), 0, SEEK_SET) != 0) adopted = errno_error("cannot rewind", errno);
  std::uint64_t payload_bytes = 0;
  if (adopted) {
    auto total = stream_frame(file.value().get(), digest, -1);
    if (total) payload_bytes = total.value();
    else adopted = Error{total.error().code, "object " + name + ": " + total.error().message};
  }
  if (!adopted) {
    ::unlinkat(m_staging.get(), name.c_str(), 0);
    forget(digest);
    return adopted;
  }
  const std::lock_guard lock(m_mutex);
  m_staged.push_back(digest);
  m_counts.new_bytes += payload_bytes;
  m_counts.stored_bytes += bytes;
  return {};
}

Result<void> Transaction::put_chunks(std::span<const std::byte> memory, ChunkDigests& digests) {
  const std::size_t count = (memory.size() + k_chunk_bytes - 1) / k_chunk_bytes;
  const std::size_t before = digests.size();
  digests.resize(before + count);
  std::mutex failure_mutex;
  std::optional<Error> failure;
  m_pool.run(count, [&](std::size_t worker, std::size_t item) {
    const std::size_t start = item * k_chunk_bytes;
    const auto chunk = memory.subspan(start, std::min(k_chunk_bytes, memory.size() - start));
    if (all_zero(chunk)) {
      add(&WriteCounts::zero_bytes, chunk.size());
      return;
    }
    auto digest = put_by(m_workers[worker], chunk);
    if (digest) {
      digests[before + item] = digest.value();
      return;
    }
    const std::lock_guard lock(failure_mutex);
    if (!failure) failure = digest.error();
  });
  if (failure) return *failure;
  return {};
}

Result<void> Transaction::publish() {
  if (m_staged.empty()) return {};
  // One sync for all: the file system writes the staged files in the order that suits the disk.
  if (::syncfs(m_staging.get()) != 0) return errno_error("cannot sync the store", errno);
  std::set<std::string> folders;
  std::vector<Digest> left = m_staged;
  for (const Digest& digest : m_staged) {
    const std::string target = ObjectStore::relative_path(digest);
    const std::string folder = target.substr(0, 2);
    if (folders.insert(folder).second) {
      if (auto status = make_folder(m_store->objects(), folder); !status) return status.error();
    }
    if (::renameat(m_staging.get(), digest.hex().c_str(), m_store->objects(), target.c_str()) != 0) {
      return errno_error("cannot publish object " + digest.hex(), errno);
    }
  }
  for (const std::string& folder : folders) {
    auto opened = open_at(m_store->objects(), folder, O_DIRECTORY);
    if (!opened) return opened.error();
    if (auto status = sync_folder(opened.value().get(), folder); !status) return status.error();
  }
  if (auto status = sync_folder(m_store->objects(), "objects"); !status) return status.error();
  m_staged.clear();
  return {};
}

WriteCounts Transaction::counts() const {
  const std::lock_guard lock(m_mutex);
  return m_counts;
}

}  // namespace kerncap::core
