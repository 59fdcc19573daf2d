// What memory the program has, as far as its driver calls told us. No driver call is made here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "capture/allocations.hpp"
#include "capture/mappings.hpp"

namespace kerncap::cuda {

// All CUDA addresses are unified: one address for host and devices.
using capture::Allocation;

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
  // Memory of this one that others may open: what the address lies in.
  void exported(std::uint64_t address);
  // A context is going. Most of what was made in it goes, too, but not all: pools belong to devices, and green contexts
  // share the memory of another one. `is_there` is asked later, once for each of these.
  void context_destroyed(std::uint64_t context);
  void drop_what_went(const std::function<bool(std::uint64_t base)>& is_there);

  // cuMemCreate, cuMemMap, cuMemSetAccess, cuMulticastCreate and their like; but what is unmapped comes back as remove()
  // says.
  [[nodiscard]] capture::Mappings& mappings() noexcept { return m_mappings; }
  void unmap(std::uint64_t base, std::uint64_t bytes, std::uint64_t call);

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
  // What a call that has not ended yet gives back.
  struct Leaving {
    std::vector<Allocation> allocations;
    capture::Mappings::ByBase mappings;
    std::vector<std::uint64_t> closed;           // shared memory
  };
  mutable std::mutex m_mutex;
  std::map<std::uint64_t, Allocation> m_by_base;
  std::map<std::uint64_t, std::uint64_t> m_opened;         // base of shared memory -> how often it is open
  std::vector<std::uint64_t> m_doubtful;         // bases of what may have gone with its context, or by a call that failed
  capture::Mappings m_mappings;
  std::unordered_map<std::uint64_t, Leaving> m_leaving;    // by call
  std::map<std::uint64_t, std::uint64_t> m_graph_memory;   // base -> bytes
  std::map<std::uint32_t, std::uint64_t> m_peers;          // device -> bit i: it reaches device i
};

}  // namespace kerncap::cuda
