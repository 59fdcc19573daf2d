// What memory the program has, as far as its calls told us. No HSA call is made here: plain book-keeping.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "capture/protocol.hpp"

namespace kerncap::capture {

// One allocation, mapping, or pinned range. The address is the device's.
struct Allocation {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::device_coarse;
  std::uint32_t device = k_no_device;   // the owner
  std::uint32_t flags = 0;                       // k_region_*
  std::uint64_t access = 0;                      // bit i: device i may touch it
  std::uint64_t host = 0;                        // host address where it differs from `base`
  std::uint64_t align = 4096;
  std::uint64_t module = 0;                      // of a loaded code object
  std::uint32_t piece = 0;                       // physical memory behind a mapping: two mappings may share it; 0: unknown
};

// Memory from pools and what else has one base address: exact, as every allocation has one matching free.
class AllocationMap {
 public:
  void add(const Allocation& allocation);
  bool remove(std::uint64_t base);
  // The new list of devices; the owner never loses access.
  void set_access(std::uint64_t address, std::uint64_t access);
  [[nodiscard]] std::optional<Allocation> find(std::uint64_t address) const;
  void append_to(std::vector<Allocation>& out) const;
  void remove_module(std::uint64_t module);

 private:
  mutable std::mutex m_mutex;
  std::map<std::uint64_t, Allocation> m_by_base;
};

// hsa_amd_vmem_*: handles are physical memory, mappings give it addresses, access is granted per mapping.
class MappingMap {
 public:
  struct Handle {
    std::uint32_t device = k_no_device;
    bool known = false;               // false: imported, its pool is another process's
    std::uint32_t piece = 0;          // numbered by add_handle(): the runtime reuses handles
  };
  void add_handle(std::uint64_t handle, Handle properties);
  void release_handle(std::uint64_t handle);
  void map(std::uint64_t base, std::uint64_t bytes, std::uint64_t offset, std::uint64_t handle);
  void unmap(std::uint64_t base, std::uint64_t bytes);
  // For every mapping inside the range.
  void set_access(std::uint64_t base, std::uint64_t bytes, std::uint32_t device, bool readable, bool writable);
  void append_to(std::vector<Allocation>& out) const;

 private:
  struct Mapping {
    std::uint64_t bytes;
    std::uint64_t offset;
    std::uint64_t handle;
    Handle properties;
    std::uint64_t readable = 0;
    std::uint64_t writable = 0;
  };
  mutable std::mutex m_mutex;
  std::unordered_map<std::uint64_t, Handle> m_handles;
  std::uint32_t m_pieces = 0;
  std::map<std::uint64_t, Mapping> m_mappings;
};

// Host memory that was pinned for a device: the same range may be pinned many times over.
class PinnedMap {
 public:
  void lock(const Allocation& pinned);          // keyed by host address
  void unlock(std::uint64_t host);
  void append_to(std::vector<Allocation>& out) const;

 private:
  mutable std::mutex m_mutex;
  std::multimap<std::uint64_t, Allocation> m_by_host;
};

// Ranges of ordinary host memory whose attributes let devices in (managed memory).
class ManagedRanges {
 public:
  // `grant`: devices that get access; `deny`: devices that lose it.
  void set_access(std::uint64_t base, std::uint64_t bytes, std::uint64_t grant, std::uint64_t deny);
  void append_to(std::vector<Allocation>& out) const;

 private:
  void split_at(std::uint64_t address);

  mutable std::mutex m_mutex;
  struct Range {
    std::uint64_t end;
    std::uint64_t access;
  };
  std::map<std::uint64_t, Range> m_ranges;
};

// Ordered by address and disjoint: where two overlap, what comes earlier in `priority` order of the input wins.
[[nodiscard]] std::vector<Allocation> disjoint(std::vector<Allocation> allocations);

}  // namespace kerncap::capture
