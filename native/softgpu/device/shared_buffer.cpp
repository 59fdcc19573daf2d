#include "softgpu/device/shared_buffer.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "softgpu/device/driver.hpp"
#include "softgpu/device/kernel_fstat.hpp"
#include "softgpu/device/report.hpp"

namespace kerncap::softgpu {
namespace {

constexpr unsigned k_foreign_shift = 48;  // a memory file is smaller than this
constexpr unsigned k_max_foreign = 64;

// Files of other processes that this one has imported buffers from. Kept for good, and few.
struct ForeignFiles {
  struct Entry {
    dev_t device;
    ino_t inode;
    std::shared_ptr<MemoryFile> file;
  };
  std::mutex mutex;
  std::vector<Entry> entries;
};

ForeignFiles& foreign_files() {
  static auto* files = new ForeignFiles;
  return *files;
}

// The same files by index, for mmap, which takes no lock.
std::array<std::atomic<int>, k_max_foreign> g_foreign_fds{};

[[nodiscard]] std::shared_ptr<MemoryFile> open_foreign(int fd) {
  struct stat info {};
  if (kernel_fstat(fd, info) != 0) return nullptr;
  ForeignFiles& files = foreign_files();
  const std::lock_guard lock(files.mutex);
  for (const auto& entry : files.entries) {
    if (entry.device == info.st_dev && entry.inode == info.st_ino) return entry.file;
  }
  if (files.entries.size() == k_max_foreign) {
    report("buffers of more than %u processes cannot be imported", k_max_foreign);
    return nullptr;
  }
  auto file = MemoryFile::open_foreign(fd);
  if (!file) {
    report("cannot import a buffer: %s", file.error().message.c_str());
    return nullptr;
  }
  g_foreign_fds[files.entries.size()].store(file.value()->fd());
  files.entries.push_back({info.st_dev, info.st_ino, file.value()});
  return file.value();
}

}  // namespace

void record_export(Pages& pages, unsigned gpu_index) noexcept {
  ExportRecord& record = pages.record();
  record.gpu_index = gpu_index;
  record.size_bytes = pages.size_bytes();
}

int export_buffer(Pages& pages, unsigned gpu_index, bool close_on_exec) noexcept {
  record_export(pages, gpu_index);
  return pages.file().open_handle(pages.offset(), close_on_exec);
}

SharedBuffer find_shared_buffer(Driver& driver, int fd) {
  const off_t position = lseek(fd, 0, SEEK_CUR);
  if (position < 0) return {};
  const bool ours = driver.memory()->is_handle(fd);
  const auto file = ours ? driver.memory() : open_foreign(fd);
  if (file == nullptr) return {};
  SharedBuffer shared;
  shared.pages = file->find(static_cast<std::uint64_t>(position));
  const ExportRecord* record = file->record(static_cast<std::uint64_t>(position));
  if (shared.pages == nullptr || record == nullptr || record->gpu_index >= driver.gpus().size()) return {};
  shared.gpu_index = record->gpu_index;
  return shared;
}

std::uint64_t map_offset(const Pages& pages) noexcept {
  const int fd = pages.file().fd();
  for (unsigned i = 0; i < k_max_foreign; ++i) {
    if (g_foreign_fds[i].load() == fd) return (std::uint64_t{i} + 1) << k_foreign_shift | pages.offset();
  }
  return pages.offset();
}

ForeignMap foreign_map(std::uint64_t map_offset) noexcept {
  const std::uint64_t index = map_offset >> k_foreign_shift;
  if (index == 0 || index > k_max_foreign) return {};
  return {g_foreign_fds[index - 1].load(), map_offset & ((std::uint64_t{1} << k_foreign_shift) - 1)};
}

}  // namespace kerncap::softgpu
