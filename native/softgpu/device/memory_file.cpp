#include "softgpu/device/memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "softgpu/device/kernel_fstat.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_magic = 0x75'7067'7363'6b;  // "kcsgpu"
constexpr std::uint64_t k_version = 1;
constexpr std::uint64_t k_doorbells_begin = 64 << 10;
constexpr std::uint64_t k_records_begin = 1 << 20;
// Offsets are handed out contiguously, physical memory is not: a pool spans more offsets than it may use bytes, so
// that fragmentation is no reason to fail.
constexpr std::uint64_t k_span_factor = 4;
constexpr std::uint64_t k_alignment = std::uint64_t{2} << 20;  // of big buffers, for huge pages
// Where the mapping of the whole file is tried first: below anything that the kernel, the loader or a sanitizer takes,
// so that it stays out of the way of programs that restore addresses.
constexpr std::uintptr_t k_view_hint = 0x2400'0000'0000;

struct Header {
  std::uint64_t magic, version, data_begin, size_bytes;
};

[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) noexcept {
  return (value + to - 1) / to * to;
}

[[nodiscard]] core::Error failed(const char* what) {
  return {core::ErrorCode::io, std::string("software GPU memory: ") + what + ": " + std::strerror(errno)};
}

[[nodiscard]] std::byte* map_all(int fd, std::uint64_t size_bytes) noexcept {
  void* view = mmap(reinterpret_cast<void*>(k_view_hint), size_bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (view == MAP_FAILED) return nullptr;
  // A child of a fork starts anew; these pages are not its.
  madvise(view, size_bytes, MADV_DONTFORK);
  return static_cast<std::byte*>(view);
}

[[nodiscard]] Header& header_of(std::byte* view) noexcept { return *reinterpret_cast<Header*>(view); }

}  // namespace

Pages::Pages(std::shared_ptr<MemoryFile> file, unsigned pool, std::uint64_t offset, std::uint64_t size_bytes)
    : m_file(std::move(file)), m_pool(pool), m_offset(offset), m_size_bytes(size_bytes) {}

Pages::~Pages() { m_file->release(m_pool, m_offset, m_size_bytes, m_has_record.load()); }

ExportRecord& Pages::record() noexcept {
  m_has_record.store(true);
  return *m_file->record(m_offset);
}

std::byte* Pages::host() const noexcept { return m_file->view() + m_offset; }

MemoryFile::MemoryFile(core::UniqueFd fd, std::byte* view, std::uint64_t size_bytes, bool foreign) noexcept
    : m_fd(std::move(fd)), m_view(view), m_size_bytes(size_bytes), m_foreign(foreign) {
  struct stat info {};
  if (kernel_fstat(m_fd.get(), info) != 0) return;  // then nothing is a handle
  m_device = info.st_dev;
  m_inode = info.st_ino;
}

MemoryFile::~MemoryFile() { munmap(m_view, m_size_bytes); }

core::Result<std::shared_ptr<MemoryFile>> MemoryFile::create(unsigned gpus, std::uint64_t vram_bytes,
                                                             std::uint64_t system_bytes) {
  const std::uint64_t vram_span = round_up(vram_bytes * k_span_factor, k_alignment);
  const std::uint64_t system_span = round_up(system_bytes * k_span_factor, k_alignment);
  const std::uint64_t data_bytes = gpus * vram_span + system_span;
  const std::uint64_t data_begin =
      round_up(k_records_begin + data_bytes / k_page_bytes * sizeof(ExportRecord), k_alignment);
  const std::uint64_t size_bytes = data_begin + data_bytes;

  core::UniqueFd fd(memfd_create("kerncap-softgpu", MFD_CLOEXEC));
  if (!fd.valid()) return failed("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) return failed("ftruncate");
  std::byte* view = map_all(fd.get(), size_bytes);
  if (view == nullptr) {
    const std::string what = "mapping " + std::to_string(size_bytes >> 30) + " GiB of address space (ulimit -v)";
    return failed(what.c_str());
  }
  header_of(view) = {k_magic, k_version, data_begin, size_bytes};

  std::shared_ptr<MemoryFile> file(new MemoryFile(std::move(fd), view, size_bytes, false));
  std::uint64_t begin = data_begin;
  for (unsigned i = 0; i <= gpus; ++i) {
    const std::uint64_t span = i < gpus ? vram_span : system_span;
    Pool pool;
    pool.free.emplace(begin, begin + span);
    pool.limit_bytes = i < gpus ? vram_bytes : system_bytes;
    file->m_pools.push_back(std::move(pool));
    begin += span;
  }
  return file;
}

core::Result<std::shared_ptr<MemoryFile>> MemoryFile::open_foreign(int handle) {
  core::UniqueFd fd(fcntl(handle, F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return failed("dup");
  Header header{};
  if (pread(fd.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) || header.magic != k_magic) {
    return core::Error{core::ErrorCode::invalid_argument, "not a buffer of a software GPU"};
  }
  if (header.version != k_version) {
    return core::Error{core::ErrorCode::unsupported, "a buffer of a software GPU of another version"};
  }
  struct stat info {};
  if (kernel_fstat(fd.get(), info) != 0 || static_cast<std::uint64_t>(info.st_size) != header.size_bytes) {
    return core::Error{core::ErrorCode::damaged, "a software GPU's memory file of the wrong size"};
  }
  std::byte* view = map_all(fd.get(), header.size_bytes);
  if (view == nullptr) return failed("mmap");
  return std::shared_ptr<MemoryFile>(new MemoryFile(std::move(fd), view, header.size_bytes, true));
}

std::uint64_t MemoryFile::doorbells_offset(unsigned gpu) const noexcept {
  return k_doorbells_begin + k_doorbell_bytes * gpu;
}

ExportRecord* MemoryFile::record(std::uint64_t offset) const noexcept {
  const std::uint64_t data_begin = header_of(m_view).data_begin;
  if (offset < data_begin || offset >= m_size_bytes) return nullptr;
  return reinterpret_cast<ExportRecord*>(m_view + k_records_begin) + (offset - data_begin) / k_page_bytes;
}

std::shared_ptr<Pages> MemoryFile::allocate(unsigned pool_index, std::uint64_t size_bytes) {
  if (m_foreign || size_bytes == 0) return nullptr;
  size_bytes = round_up(size_bytes, k_page_bytes);
  std::unique_lock lock(m_mutex);
  if (!m_zombies.empty()) release_zombies(lock);
  Pool& pool = m_pools[pool_index];
  if (size_bytes > pool.limit_bytes - pool.used_bytes) return nullptr;
  const std::uint64_t alignment = size_bytes >= k_alignment ? k_alignment : k_page_bytes;
  for (auto it = pool.free.begin(); it != pool.free.end(); ++it) {
    const auto [begin, end] = *it;
    const std::uint64_t offset = round_up(begin, alignment);
    if (offset >= end || size_bytes > end - offset) continue;
    pool.free.erase(it);
    if (begin < offset) pool.free.emplace(begin, offset);
    if (offset + size_bytes < end) pool.free.emplace(offset + size_bytes, end);
    pool.used_bytes += size_bytes;
    auto pages = std::make_shared<Pages>(shared_from_this(), pool_index, offset, size_bytes);
    m_live[offset] = pages;
    return pages;
  }
  return nullptr;
}

std::shared_ptr<Pages> MemoryFile::find(std::uint64_t offset) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_live.find(offset);
  if (found != m_live.end()) {
    if (auto pages = found->second.lock()) return pages;
  }
  ExportRecord* exported = record(offset);
  if (!m_foreign || exported == nullptr || exported->size_bytes == 0) return nullptr;
  if (exported->size_bytes > m_size_bytes - offset || offset % k_page_bytes != 0) return nullptr;
  exported->foreign_refs.fetch_add(1);
  auto pages = std::make_shared<Pages>(shared_from_this(), 0, offset, exported->size_bytes);
  m_live[offset] = pages;
  return pages;
}

std::uint64_t MemoryFile::available_bytes(unsigned pool) const {
  const std::lock_guard lock(m_mutex);
  return m_pools[pool].limit_bytes - m_pools[pool].used_bytes;
}

void MemoryFile::release(unsigned pool_index, std::uint64_t offset, std::uint64_t size_bytes,
                         bool has_record) noexcept {
  if (m_foreign) {
    record(offset)->foreign_refs.fetch_sub(1);
    return;
  }
  const std::lock_guard lock(m_mutex);
  m_live.erase(offset);
  if (has_record) {  // only then: a look at a page of the file makes it take memory
    ExportRecord& exported = *record(offset);
    if (exported.foreign_refs.load() != 0) {
      m_zombies.push_back({pool_index, offset, size_bytes});
      return;
    }
    std::memset(static_cast<void*>(&exported), 0, sizeof exported);
  }
  // By the mapping: the program may have closed the descriptor, and opened a file of its own under its number.
  if (madvise(m_view + offset, size_bytes, MADV_REMOVE) != 0 && is_handle(m_fd.get())) {   // not where memory is locked
    fallocate(m_fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(size_bytes));
  }
  Pool& pool = m_pools[pool_index];
  pool.used_bytes -= size_bytes;
  auto next = pool.free.lower_bound(offset);
  std::uint64_t end = offset + size_bytes;
  if (next != pool.free.end() && next->first == end) {
    end = next->second;
    next = pool.free.erase(next);
  }
  if (next != pool.free.begin() && std::prev(next)->second == offset) {
    std::prev(next)->second = end;
  } else {
    pool.free.emplace(offset, end);
  }
}

void MemoryFile::release_zombies(std::unique_lock<std::mutex>& lock) {
  std::vector<Zombie> candidates = std::exchange(m_zombies, {});
  lock.unlock();
  for (const Zombie& zombie : candidates) release(zombie.pool, zombie.offset, zombie.size_bytes, true);
  lock.lock();
}

int MemoryFile::open_handle(std::uint64_t position, bool close_on_exec) const noexcept {
  // A new open file description, so that it has a position of its own.
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", m_fd.get());
  core::UniqueFd fd(open(path, O_RDWR | (close_on_exec ? O_CLOEXEC : 0)));
  if (!fd.valid() || !is_handle(fd.get())) return -1;
  if (lseek(fd.get(), static_cast<off_t>(position), SEEK_SET) < 0) return -1;
  return fd.release();
}

bool MemoryFile::is_handle(int fd) const noexcept {
  struct stat theirs {};
  return kernel_fstat(fd, theirs) == 0 && theirs.st_dev == m_device && theirs.st_ino == m_inode;
}

}  // namespace kerncap::softgpu
