// What a power cut could take: every file is on the disk before its name, names of leaves before those of lists,
// lists before manifests, and the list of artifacts last. The system calls that decide it are defined here, and so
// are seen in their order; a crash itself cannot be tried without a disk that forgets.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../check.hpp"
#include "core/memory_writer.hpp"
#include "core/transaction.hpp"
#include "scratch_store.hpp"

using namespace kerncap;
using core::Digest;
using test::ScratchStore;

namespace {

// What has reached the disk, by inodes, as far as the calls since the last reset promise it.
struct Disk {
  std::set<ino_t> files;                           // their contents are there
  std::map<ino_t, std::set<std::string>> unsafe;   // names in a folder that a power cut may still take
  std::vector<std::string> named;                  // targets of renames, in order
  std::vector<std::string> faults;

  [[nodiscard]] bool is_safe(const Digest& digest) const {
    const std::string name = digest.hex();
    return std::ranges::find(named, name.substr(0, 2) + '/' + name) != named.end() &&
           std::ranges::none_of(unsafe, [&](const auto& folder) {
             return folder.second.contains(name) || folder.second.contains(name.substr(0, 2));
           });
  }
};

Disk g_disk;
std::filesystem::path g_store;
std::vector<std::vector<Digest>> g_levels;  // none of one may be named before all of those before are safe

ino_t inode_at(int folder, const std::string& name) {
  struct stat status {};
  return ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_ino : 0;
}

void before_name(int from, const char* name, int to, const std::string& target) {
  const std::size_t slash = target.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : target.substr(0, slash);
  const std::string last = slash == std::string::npos ? target : target.substr(slash + 1);
  if (!g_disk.files.contains(inode_at(from, name))) g_disk.faults.push_back(last + " is named before it is written");
  const ino_t there = inode_at(to, folder);
  const bool lists = there == inode_at(AT_FDCWD, g_store / "artifacts");
  for (const auto& level : g_levels) {
    const bool here = std::ranges::any_of(level, [&](const Digest& digest) { return digest.hex() == last; });
    if (here && !lists) break;
    const bool safe = std::ranges::all_of(level, [](const Digest& digest) { return g_disk.is_safe(digest); });
    if (!safe) g_disk.faults.push_back(last + " is named before what it needs is safe");
  }
  g_disk.unsafe[there].insert(last);
  g_disk.named.push_back(target);
}

}  // namespace

extern "C" {

int fsync(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) == 0) {
    if (S_ISDIR(status.st_mode)) g_disk.unsafe.erase(status.st_ino);
    if (S_ISREG(status.st_mode)) g_disk.files.insert(status.st_ino);
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

int syncfs(int fd) noexcept {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(g_store)) {
    g_disk.files.insert(inode_at(AT_FDCWD, entry.path()));
  }
  g_disk.unsafe.clear();
  return static_cast<int>(::syscall(SYS_syncfs, fd));
}

int mkdirat(int folder, const char* name, mode_t mode) noexcept {
  const int status = static_cast<int>(::syscall(SYS_mkdirat, folder, name, mode));
  if (status == 0 && inode_at(folder, ".") == inode_at(AT_FDCWD, g_store / "objects")) {
    g_disk.unsafe[inode_at(folder, ".")].insert(name);
  }
  return status;
}

int renameat(int from, const char* name, int to, const char* target) noexcept {
  before_name(from, name, to, target);
  return static_cast<int>(::syscall(SYS_renameat2, from, name, to, target, 0));
}
}

namespace {

// Publishes memory of so many chunks, its list and a manifest; up to 16 files are synced one by one, more at once.
void test_nothing_is_named_before_what_it_needs_is_safe(std::size_t chunks) {
  const ScratchStore scratch;
  g_store = scratch.path();
  auto transaction = core::Transaction::begin(scratch.open(), 2).value();
  const test::Bytes memory = test::random_bytes(chunks * core::k_chunk_bytes);
  core::MemoryWriter writer(*transaction, memory.size());
  CHECK(writer.append(memory).ok());
  const Digest list = writer.finish().value();
  std::vector<Digest> leaves;
  for (std::size_t at = 0; at < memory.size(); at += core::k_chunk_bytes) {
    leaves.push_back(core::digest_of(std::span(memory).subspan(at, core::k_chunk_bytes)));
  }
  const std::string text = "{\"kind\":\"capture\",\"memory\":\"memory:" + list.hex() + "\"}\n";
  const Digest manifest = transaction->put(std::as_bytes(std::span(text)), core::Level::manifest).value();
  g_levels = {leaves, {list}, {manifest}};
  g_disk = {};
  CHECK(transaction->publish(std::vector{core::ArtifactLine{manifest, "{}\n"}}).ok());
  for (const std::string& fault : g_disk.faults) std::fprintf(stderr, "%s\n", fault.c_str());
  CHECK(g_disk.faults.empty());
  CHECK(g_disk.named.size() == chunks + 3);
  CHECK(g_disk.named.back() == manifest.hex());
  CHECK(g_disk.unsafe.empty());
}

}  // namespace

int main() {
  for (const std::size_t chunks : {1, 12, 20, 60}) test_nothing_is_named_before_what_it_needs_is_safe(chunks);
  return test::exit_code();
}
