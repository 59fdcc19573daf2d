// The order of the steps is the guarantee: files reach the disk before their names, leaves before lists before
// manifests, and the list of artifacts last.
#include "core/staging.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <set>
#include <unordered_set>

#include "core/file.hpp"

namespace kerncap::core {
namespace {

// Up to so many files are synced one by one: a syncfs also waits for everything that other programs have written.
constexpr std::size_t k_few_files = 16;
constexpr std::size_t k_batch = 256;  // of objects that a thread looks for at a time

std::string random_name() {
  unsigned char bytes[12];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return {};
  char text[2 * sizeof bytes + 1];
  for (std::size_t i = 0; i < sizeof bytes; ++i) std::snprintf(text + 2 * i, 3, "%02x", bytes[i]);
  return text;
}

std::string line_draft(const ArtifactLine& line) { return "list-" + line.digest.hex(); }

Result<void> sync_file(int folder, const std::string& name) {
  auto file = open_at(folder, name, O_RDONLY);
  if (!file) return file.error();
  return sync_to_disk(file.value().get(), name);
}

// Whether nobody holds the lock of a transaction's folder.
bool is_dead(int transactions, const std::string& name) {
  auto folder = open_at(transactions, name, O_DIRECTORY);
  if (!folder) return true;
  auto live = open_at(folder.value().get(), "live", O_RDWR);
  return !live || ::flock(live.value().get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

Result<std::unique_ptr<Staging>> Staging::make(const ObjectStore& store) {
  auto staging = std::unique_ptr<Staging>(new Staging(store));
  if (auto status = staging->open(); !status) return status.error();
  return staging;
}

Result<void> Staging::open() {
  auto transactions = open_at(m_store.folder(), "tmp", O_DIRECTORY);
  if (!transactions) return transactions.error();
  m_transactions = std::move(transactions).value();
  auto names = list_folder(m_transactions.get());
  if (!names) return names.error();
  if (!names.value().empty()) {
    if (auto idle = m_store.lock().exclusive(std::chrono::milliseconds(0)); idle) {
      if (auto cleared = clear_dead_transactions(m_store); !cleared) return cleared.error();
    }
  }
  // Nobody takes a new folder for a dead one: that needs the exclusive lock.
  auto lock = m_store.lock().shared();
  if (!lock) return lock.error();
  const std::string name = random_name();
  if (name.empty()) return errno_error("no random numbers", errno);
  if (auto status = make_folder(m_transactions.get(), name); !status) return status.error();
  m_name = name;
  m_process = ::getpid();
  auto folder = open_at(m_transactions.get(), m_name, O_DIRECTORY);
  if (!folder) return folder.error();
  m_folder = std::move(folder).value();
  auto live = open_at(m_folder.get(), "live", O_RDWR | O_CREAT | O_EXCL, 0600);
  if (!live) return live.error();
  m_live = std::move(live).value();
  if (::flock(m_live.get(), LOCK_EX | LOCK_NB) != 0) return errno_error("cannot lock a new transaction", errno);
  auto pins = open_at(m_folder.get(), "pins", O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600);
  if (!pins) return pins.error();
  m_pins = std::move(pins).value();
  return {};
}

Staging::~Staging() {
  if (m_name.empty() || m_process != ::getpid()) return;
  (void)remove_folder(m_transactions.get(), m_name);
}

Result<UniqueFd> Staging::create(const std::string& draft) const {
  return open_at(m_folder.get(), draft, O_RDWR | O_CREAT | O_EXCL, 0400);
}

void Staging::drop(const std::string& draft) const noexcept { ::unlinkat(m_folder.get(), draft.c_str(), 0); }

Result<void> Staging::keep(const std::string& draft, const Digest& digest) const {
  if (::renameat(m_folder.get(), draft.c_str(), m_folder.get(), digest.hex().c_str()) == 0) return {};
  return errno_error("cannot rename a staged file", errno);
}

Result<void> Staging::pin(std::span<const Digest> digests) const {
  std::string lines;
  lines.reserve(digests.size() * 65);
  for (const Digest& digest : digests) {
    lines += digest.hex();
    lines += '\n';
  }
  return write_all(m_pins.get(), std::as_bytes(std::span(lines)));
}

Result<void> Staging::publish(std::span<const StagedObject> objects, std::span<const ArtifactLine> lines,
                              std::span<const Digest> needed, WorkerPool& pool) const {
  for (const ArtifactLine& line : lines) {
    drop(line_draft(line));  // left by an attempt that failed
    auto file = create(line_draft(line));
    if (!file) return file.error();
    if (auto status = write_all(file.value().get(), std::as_bytes(std::span(line.entry))); !status) return status;
  }
  if (auto status = sync(objects, lines); !status) return status;
  auto lock = m_store.lock().shared();
  if (!lock) return lock.error();
  if (auto status = still_there(objects, needed, pool); !status) return status;
  // They stay ours while we live, whatever becomes of the artifacts: later manifests may rely on them.
  std::vector<Digest> digests;
  for (const StagedObject& object : objects) digests.push_back(object.digest);
  if (auto status = pin(digests); !status) return status;
  for (const Level level : {Level::leaf, Level::list, Level::manifest}) {
    if (auto status = move_level(objects, level); !status) return status;
  }
  return move_lines(lines);
}

Result<void> Staging::sync(std::span<const StagedObject> objects, std::span<const ArtifactLine> lines) const {
  if (objects.size() + lines.size() > k_few_files) {
    // The file system writes the files in the order that suits the disk.
    if (::syncfs(m_folder.get()) != 0) return errno_error("cannot bring the store to the disk", errno);
    return {};
  }
  for (const StagedObject& object : objects) {
    if (auto status = sync_file(m_folder.get(), object.digest.hex()); !status) return status;
  }
  for (const ArtifactLine& line : lines) {
    if (auto status = sync_file(m_folder.get(), line_draft(line)); !status) return status;
  }
  return {};
}

Result<void> Staging::still_there(std::span<const StagedObject> objects, std::span<const Digest> needed,
                                  WorkerPool& pool) const {
  std::unordered_set<Digest, DigestHash> staged;
  for (const StagedObject& object : objects) staged.insert(object.digest);
  // A large capture needs tens of thousands: one thread would take as long as hashing a gigabyte does.
  std::atomic<const Digest*> missing = nullptr;
  pool.run((needed.size() + k_batch - 1) / k_batch, [&](std::size_t, std::size_t batch) {
    for (const Digest& digest : needed.subspan(batch * k_batch, std::min(k_batch, needed.size() - batch * k_batch))) {
      if (!staged.contains(digest) && !m_store.has(digest)) missing = &digest;
    }
  });
  if (missing != nullptr) return named(*missing, {ErrorCode::not_found, {}});
  return {};
}

Result<void> Staging::move_level(std::span<const StagedObject> objects, Level level) const {
  std::set<std::string> folders;
  bool made = false;
  for (const auto& [digest, its_level] : objects) {
    if (its_level != level) continue;
    const std::string target = ObjectStore::relative_path(digest);
    const auto [folder, is_new] = folders.insert(target.substr(0, 2));
    if (is_new) {
      auto status = make_folder(m_store.objects(), *folder);
      if (!status) return status.error();
      made = made || status.value();
    }
    if (::renameat(m_folder.get(), digest.hex().c_str(), m_store.objects(), target.c_str()) != 0) {
      return errno_error("cannot publish object " + digest.hex(), errno);
    }
  }
  if (folders.size() > k_few_files) {
    // A file system's journal may be written once for each fsync: here that would be up to 256 times.
    if (::syncfs(m_store.objects()) != 0) return errno_error("cannot bring the names of objects to the disk", errno);
    return {};
  }
  for (const std::string& folder : folders) {
    auto opened = open_at(m_store.objects(), folder, O_DIRECTORY);
    if (!opened) return opened.error();
    if (auto status = sync_to_disk(opened.value().get(), folder); !status) return status;
  }
  if (made) return sync_to_disk(m_store.objects(), "objects");
  return {};
}

Result<void> Staging::move_lines(std::span<const ArtifactLine> lines) const {
  if (lines.empty()) return {};
  auto artifacts = open_at(m_store.folder(), "artifacts", O_DIRECTORY);
  if (!artifacts) return artifacts.error();
  for (const ArtifactLine& line : lines) {
    const std::string name = line.digest.hex();
    if (::renameat(m_folder.get(), line_draft(line).c_str(), artifacts.value().get(), name.c_str()) != 0) {
      return errno_error("cannot list artifact " + name, errno);
    }
  }
  return sync_to_disk(artifacts.value().get(), "artifacts");
}

Result<std::size_t> clear_dead_transactions(const ObjectStore& store) {
  auto transactions = open_at(store.folder(), "tmp", O_DIRECTORY);
  if (!transactions) return transactions.error();
  auto names = list_folder(transactions.value().get());
  if (!names) return names.error();
  std::size_t count = 0;
  for (const std::string& name : names.value()) {
    // A plain file is the draft of a small file, written under the shared lock: under ours its writer is dead.
    if (::unlinkat(transactions.value().get(), name.c_str(), 0) != 0) {
      if (errno == ENOENT) continue;  // a transaction that ended just now
      if (errno != EISDIR && errno != EPERM) return errno_error("cannot remove tmp/" + name, errno);
      if (!is_dead(transactions.value().get(), name)) continue;
      if (auto status = remove_folder(transactions.value().get(), name); !status) return status.error();
    }
    ++count;
  }
  return count;
}

}  // namespace kerncap::core
