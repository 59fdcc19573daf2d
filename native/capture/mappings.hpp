// Physical memory and where it is mapped: handles name the former, mappings give it addresses and each device its rights.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "capture/allocations.hpp"

namespace kerncap::capture {

// What a handle stands for.
struct PhysicalMemory {
  std::uint32_t device = k_no_device;   // whose it is; k_no_device: the host's, or not known
  bool is_foreign = true;               // of another process, or not known
  bool is_multicast = false;            // of several GPUs under one address: it cannot be read or copied
  bool is_exported = false;             // to other processes
  std::uint32_t piece = 0;              // numbered by add_handle(): handles are given out again
};

class Mappings {
 public:
  struct Mapping {
    std::uint64_t bytes = 0;
    PhysicalMemory memory;              // lives as long as it is mapped, whatever becomes of the handle
    std::uint64_t readable = 0;         // bit i: by device i
    std::uint64_t writable = 0;
  };
  using ByBase = std::map<std::uint64_t, Mapping>;

  void add_handle(std::uint64_t handle, PhysicalMemory memory);
  // Of what is mapped at an address, if anything is.
  void add_handle_at(std::uint64_t handle, std::uint64_t address);
  void release_handle(std::uint64_t handle);
  void export_handle(std::uint64_t handle);
  [[nodiscard]] bool knows_handle(std::uint64_t handle) const;

  void map(std::uint64_t base, std::uint64_t bytes, std::uint64_t handle);
  // What begins in the range goes: it is returned, for put_back(), which leaves alone what is mapped there by then.
  ByBase unmap(std::uint64_t base, std::uint64_t bytes);
  void put_back(ByBase& unmapped);
  // Whether a device that has rights to a mapping that begins in the range would have others.
  [[nodiscard]] bool changes_access(std::uint64_t base, std::uint64_t bytes, std::uint32_t device, bool readable,
                                    bool writable) const;
  // For every mapping that begins in the range.
  void set_access(std::uint64_t base, std::uint64_t bytes, std::uint32_t device, bool readable, bool writable);

  // Whether a device may write to memory of another one.
  [[nodiscard]] bool reaches(std::uint32_t device, std::uint32_t other) const;
  // What the device may touch.
  void append_to(std::vector<Allocation>& out, std::uint32_t device) const;

 private:
  mutable std::mutex m_mutex;
  std::unordered_map<std::uint64_t, PhysicalMemory> m_handles;
  std::uint32_t m_pieces = 0;
  ByBase m_by_base;
};

}  // namespace kerncap::capture
