// What memory the program has, as far as its driver calls told us. No driver call is made here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "capture/protocol.hpp"

namespace kerncap::cuda {

// One allocation, mapping or pinned range. All CUDA addresses are unified: one address for host and devices.
struct Allocation {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  capture::MemoryKind kind = capture::MemoryKind::device_coarse;
  std::uint32_t device = capture::k_no_device;   // the owner
  std::uint32_t flags = 0;                       // capture::k_region_*
  std::uint64_t access = 0;                      // bit i: device i may touch it; 0: every device
  std::uint64_t module = 0;                      // of a module's variable
  std::uint64_t context = 0;                     // in which it was made; 0 once that is gone
  bool is_exported = false;                      // to other processes
  std::uint32_t piece = 0;                       // physical memory behind a mapping: two mappings may share it; 0: unknown

  [[nodiscard]] std::uint64_t end() const noexcept { return base + bytes; }
  [[nodiscard]] bool lies_elsewhere(std::uint32_t than) const noexcept { return device != capture::k_no_device && device != than; }
  // With other processes, which may write there at any time.
  [[nodiscard]] bool is_shared() const noexcept { return is_exported || kind == capture::MemoryKind::ipc; }
};

class Allocations {
 public:
  void add(const Allocation& allocation);
  // What a call gives back leaves the list when the call begins, as another thread may be given the address before it has returned,
  // and comes back where ended() says that the call failed. `call`: a number of the call's own.
  // What was added with exactly this base; false when there is none.
  bool remove(std::uint64_t base, std::uint64_t call);
  void ended(std::uint64_t call, bool succeeded);
  // Memory of another process: it may be opened several times, at one address, and goes with the last close.
  void add_shared(const Allocation& allocation);
  void remove_shared(std::uint64_t base, std::uint64_t call);
  // Memory of this one that others may open: what the address lies in, or the physical memory of a handle.
  void exported(std::uint64_t address);
  void exported_handle(std::uint64_t handle);
  // A context is going. Most of what was made in it goes, too, but not all: pools belong to devices, and green contexts
  // share the memory of another one. `is_there` is asked later, once for each of these.
  void context_destroyed(std::uint64_t context);
  void drop_what_went(const std::function<bool(std::uint64_t base)>& is_there);

  // cuMemCreate / cuMemMap / cuMemSetAccess: handles are physical memory, mappings give it addresses. `device`: whose it
  // is; k_no_device: the host's.
  void add_handle(std::uint64_t handle, std::uint32_t device, bool imported);
  // Memory of several GPUs under one address, which only special instructions may use: it cannot be read or copied.
  void add_multicast(std::uint64_t handle);
  [[nodiscard]] bool knows_handle(std::uint64_t handle) const;
  // cuMemRetainAllocationHandle: a handle of the memory that is mapped at an address.
  void add_handle_at(std::uint64_t handle, std::uint64_t address);
  void map(std::uint64_t base, std::uint64_t bytes, std::uint64_t handle);
  void unmap(std::uint64_t base, std::uint64_t bytes, std::uint64_t call);
  void set_access(std::uint64_t base, std::uint64_t bytes, std::uint32_t device, bool readable, bool writable);

  // Memory that a graph allocates while it runs: it has an address and, most of the time, no contents.
  void add_graph_memory(std::uint64_t base, std::uint64_t bytes);
  [[nodiscard]] bool is_graph_memory(std::uint64_t address) const;

  // What an address lies in, if that is memory of another GPU that is not among what reachable() lists for this one: only
  // peer access leads there.
  [[nodiscard]] std::optional<Allocation> peer_at(std::uint64_t address, std::uint32_t device) const;
  // A context of `device` may reach what contexts of `peer` allocate.
  void set_peer_access(std::uint32_t device, std::uint32_t peer);
  // Whether `device` may write to memory of `other`.
  [[nodiscard]] bool reaches(std::uint32_t device, std::uint32_t other) const;
  // How much of other GPUs' memory peer access leads to: bytes by owner.
  [[nodiscard]] std::map<std::uint32_t, std::uint64_t> peer_bytes(std::uint32_t device) const;

  // Everything that the device may touch, ordered by address and without overlap.
  [[nodiscard]] std::vector<Allocation> reachable(std::uint32_t device) const;

 private:
  struct Handle {
    std::uint32_t device;
    bool imported;
    bool multicast;
    std::uint32_t piece;              // numbered as they are made: the driver gives handles out again
    bool exported = false;
  };
  struct Mapping {
    std::uint64_t bytes;
    Handle handle;
    std::uint64_t readable = 0;
    std::uint64_t writable = 0;
  };
  // What a call that has not ended yet gives back.
  struct Leaving {
    std::vector<Allocation> allocations;
    std::map<std::uint64_t, Mapping> mappings;
    std::vector<std::uint64_t> closed;           // shared memory
  };
  // What an address lies in; null: nothing that was added. With m_mutex held.
  [[nodiscard]] const Allocation* at(std::uint64_t address) const;

  mutable std::mutex m_mutex;
  std::map<std::uint64_t, Allocation> m_by_base;
  std::map<std::uint64_t, std::uint64_t> m_opened;         // base of shared memory -> how often it is open
  std::vector<std::uint64_t> m_doubtful;         // bases of what may have gone with its context, or by a call that failed
  std::unordered_map<std::uint64_t, Handle> m_handles;
  std::uint32_t m_pieces = 0;
  std::map<std::uint64_t, Mapping> m_mappings;
  std::unordered_map<std::uint64_t, Leaving> m_leaving;    // by call
  std::map<std::uint64_t, std::uint64_t> m_graph_memory;   // base -> bytes
  std::map<std::uint32_t, std::uint64_t> m_peers;          // device -> bit i: it reaches device i
};

// Where two overlap, what stands earlier in the input keeps the bytes.
[[nodiscard]] std::vector<Allocation> disjoint(const std::vector<Allocation>& allocations);

}  // namespace kerncap::cuda
