// The memory of all GPUs of one process: one sparse memory file, mapped once as a whole.
//
// The device files that the process opens are handles of the same file, so that the map offset of a buffer is simply
// its offset in the file, and mmap needs no help. Layout, in bytes (all fields native byte order):
//
//   0          header           magic u64, version u64
//   4 KiB      registers        one page for each GPU: the remapped MMIO page
//   64 KiB     doorbells        8 KiB for each GPU
//   1 MiB      export records   512 bytes for each page of data, of which only those of exported buffers are written
//   data_begin data             one span for each GPU's VRAM, then one for system memory
//
// The record of a buffer (see ExportRecord) is what another process learns about it when it is handed the file, as its
// stand-in for a dma-buf, with the file position set to the buffer's offset.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/result.hpp"
#include "core/unique_fd.hpp"

namespace kerncap::softgpu {

inline constexpr std::uint64_t k_page_bytes = 4096;
inline constexpr std::uint64_t k_doorbell_bytes = 8192;  // of one GPU: 1024 doorbells of 8 bytes

struct ExportRecord {
  std::uint64_t size_bytes;  // 0: not exported
  std::uint32_t gpu_index;
  std::atomic<std::uint32_t> foreign_refs;  // held by other processes
  std::byte metadata[496];   // opaque: what a user of libdrm attached to the buffer
};
static_assert(sizeof(ExportRecord) == 512);

class MemoryFile;

// Pages of the file. Given back, and read as zero when next used, once the last holder lets go.
class Pages {
 public:
  Pages(std::shared_ptr<MemoryFile> file, unsigned pool, std::uint64_t offset, std::uint64_t size_bytes);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] std::uint64_t offset() const noexcept { return m_offset; }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return m_size_bytes; }
  [[nodiscard]] std::byte* host() const noexcept;  // in the file's own mapping: always accessible
  [[nodiscard]] MemoryFile& file() const noexcept { return *m_file; }
  // Of this buffer; zero until written.
  [[nodiscard]] ExportRecord& record() noexcept;

 private:
  std::shared_ptr<MemoryFile> m_file;
  unsigned m_pool;
  std::uint64_t m_offset, m_size_bytes;
  std::atomic<bool> m_has_record{false};
};

class MemoryFile : public std::enable_shared_from_this<MemoryFile> {
 public:
  // Pools 0..gpus-1 are the GPUs' VRAM, pool `gpus` is system memory that the driver allocates (GTT).
  [[nodiscard]] static core::Result<std::shared_ptr<MemoryFile>> create(unsigned gpus, std::uint64_t vram_bytes,
                                                                        std::uint64_t system_bytes);
  // Another process's file, by a handle of it; the descriptor is duplicated.
  [[nodiscard]] static core::Result<std::shared_ptr<MemoryFile>> open_foreign(int fd);
  ~MemoryFile();

  [[nodiscard]] std::shared_ptr<Pages> allocate(unsigned pool, std::uint64_t size_bytes);
  // The buffer that begins at this offset, or null. Of another process's file: one that it has exported.
  [[nodiscard]] std::shared_ptr<Pages> find(std::uint64_t offset);
  [[nodiscard]] std::uint64_t available_bytes(unsigned pool) const;

  [[nodiscard]] std::uint64_t registers_offset(unsigned gpu) const noexcept { return k_page_bytes * (gpu + 1); }
  [[nodiscard]] std::uint64_t doorbells_offset(unsigned gpu) const noexcept;
  [[nodiscard]] ExportRecord* record(std::uint64_t offset) const noexcept;  // null outside the data
  [[nodiscard]] std::byte* view() const noexcept { return m_view; }
  [[nodiscard]] int fd() const noexcept { return m_fd.get(); }

  // A new handle with the given file position; -1 and errno on failure.
  [[nodiscard]] int open_handle(std::uint64_t position, bool close_on_exec) const noexcept;
  [[nodiscard]] bool is_handle(int fd) const noexcept;

 private:
  friend class Pages;
  struct Pool {
    std::map<std::uint64_t, std::uint64_t> free;  // begin to end
    std::uint64_t limit_bytes = 0, used_bytes = 0;
  };

  MemoryFile(core::UniqueFd fd, std::byte* view, std::uint64_t size_bytes, bool foreign) noexcept;
  void release(unsigned pool, std::uint64_t offset, std::uint64_t size_bytes, bool has_record) noexcept;
  void release_zombies(std::unique_lock<std::mutex>& lock);

  core::UniqueFd m_fd;
  std::byte* m_view;
  std::uint64_t m_size_bytes;
  bool m_foreign;
  dev_t m_device = 0;  // of the file itself: how its handles are known
  ino_t m_inode = 0;
  mutable std::mutex m_mutex;
  std::vector<Pool> m_pools;
  std::unordered_map<std::uint64_t, std::weak_ptr<Pages>> m_live;  // by offset
  struct Zombie {
    unsigned pool;
    std::uint64_t offset, size_bytes;
  };
  std::vector<Zombie> m_zombies;  // freed here, still used by another process
};

}  // namespace kerncap::softgpu
