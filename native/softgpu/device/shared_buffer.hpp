// Buffers that travel as file descriptors: exporting them, and finding what a descriptor stands for.
#pragma once

#include <cstdint>
#include <memory>

#include "softgpu/device/memory_file.hpp"

namespace kerncap::softgpu {

class Driver;

struct SharedBuffer {
  std::shared_ptr<Pages> pages;  // null: not a buffer of a software GPU
  unsigned gpu_index = 0;
};

// Writes the record that another process will read.
void record_export(Pages& pages, unsigned gpu_index) noexcept;
// A stand-in for a dma-buf; -1 and errno.
[[nodiscard]] int export_buffer(Pages& pages, unsigned gpu_index, bool close_on_exec) noexcept;
[[nodiscard]] SharedBuffer find_shared_buffer(Driver& driver, int fd);

// The offset at which the program maps these pages through a render node. Those of another process lie in another
// file, which a map offset cannot tell: they get one far beyond the end of ours, and foreign_map() turns it back.
[[nodiscard]] std::uint64_t map_offset(const Pages& pages) noexcept;
struct ForeignMap {
  int fd = -1;
  std::uint64_t offset = 0;
};
[[nodiscard]] ForeignMap foreign_map(std::uint64_t map_offset) noexcept;

}  // namespace kerncap::softgpu
