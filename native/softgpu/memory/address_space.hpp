// What one GPU can reach in one process: its page table, apart from the CPU's.
//
// A GPU address is the CPU address of the same byte wherever the CPU has it mapped at all, but the bytes are read
// and written at `va + host_delta`: VRAM and GTT live in one always-mapped view of the memory file, so that
// neither the program's munmap nor a missing CPU mapping can turn a GPU access into a fault of the host.
//
// Readers (interpreter workers, SDMA, packet processing) are lock-free: they open a View, look extents up, use
// them and the host pointers made from them until the View ends. A change builds a new table, publishes it and,
// before it returns from unmap(), waits until every View that could have seen the old one has ended. So a View
// must be short (one time slice of an interpreter, well under a millisecond), must never block on something that
// needs a mapping change, and must not be open in a thread that changes the table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/write_watch.hpp"

namespace kerncap::softgpu {

enum class Rights : std::uint8_t { none = 0, read = 1, write = 2, execute = 4, all = 7 };

[[nodiscard]] constexpr Rights operator|(Rights a, Rights b) noexcept {
  return static_cast<Rights>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
[[nodiscard]] constexpr Rights without(Rights have, Rights taken) noexcept {
  return static_cast<Rights>(static_cast<unsigned>(have) & ~static_cast<unsigned>(taken));
}
[[nodiscard]] constexpr bool allows(Rights have, Rights wanted) noexcept {
  return (static_cast<unsigned>(have) & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

// [begin, end) with one set of rights; rights == none is a hole (find() answers with the whole hole). An access
// may straddle two extents that touch (two physical allocations mapped side by side): each part is looked up.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t host_delta = 0;  // host address of a byte = its GPU address + host_delta (modulo 2^64)
  Rights rights = Rights::none;

  [[nodiscard]] bool contains(std::uint64_t va, std::uint64_t size_bytes) const noexcept {
    return va >= begin && va < end && size_bytes <= end - va;
  }
  [[nodiscard]] std::byte* host(std::uint64_t va) const noexcept {
    return reinterpret_cast<std::byte*>(va + host_delta);
  }
};

class AddressSpace {
  using Table = std::vector<Extent>;  // sorted, disjoint; neighbours with equal rights and delta are one extent

 public:
  class View {
   public:
    explicit View(const AddressSpace& space) noexcept : m_space(space), m_side(space.enter()) {}
    ~View() { m_space.leave(m_side); }
    View(const View&) = delete;
    View& operator=(const View&) = delete;

    // The extent or hole around `va`, in the newest table. Stays usable until this View ends.
    [[nodiscard]] Extent find(std::uint64_t va) const noexcept;

    // Null unless [va, va + size_bytes) lies in one extent with the wanted rights.
    [[nodiscard]] std::byte* host(std::uint64_t va, std::uint64_t size_bytes, Rights wanted) const noexcept {
      const Extent extent = find(va);
      return extent.contains(va, size_bytes) && allows(extent.rights, wanted) ? extent.host(va) : nullptr;
    }

   private:
    const AddressSpace& m_space;
    unsigned m_side;
  };

  AddressSpace();
  ~AddressSpace() = default;
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Replaces whatever was mapped there.
  void map(const Extent& extent);
  void unmap(std::uint64_t begin, std::uint64_t end);

  // Grows with every change that takes something away. A cached extent is valid in a View during which the
  // generation, read after the View was opened, equals that of the moment when the extent was found.
  [[nodiscard]] std::uint64_t generation() const noexcept { return m_generation.load(std::memory_order_seq_cst); }

  // Who hears of writes of waves before they happen; null: nobody. Drops what is cached. When this returns, no View is open
  // that began before.
  void watch_writes(const core::WriteWatch* watch);
  [[nodiscard]] const core::WriteWatch* write_watch() const noexcept { return m_write_watch.load(std::memory_order_seq_cst); }

 private:
  unsigned enter() const noexcept;
  void leave(unsigned side) const noexcept;
  void publish(std::unique_ptr<const Table> table, bool takes_away);
  void wait_for_views();

  std::mutex m_writer;
  std::unique_ptr<const Table> m_owner;
  std::vector<std::unique_ptr<const Table>> m_retired;  // still visible to open Views
  std::atomic<const Table*> m_table;
  std::atomic<std::uint64_t> m_generation{1};
  std::atomic<const core::WriteWatch*> m_write_watch{nullptr};
  // Two-sided reader counts: a writer flips the side and waits for the old one to drain.
  std::atomic<unsigned> m_side{0};
  mutable std::atomic<std::uint32_t> m_readers[2]{};
};

}  // namespace kerncap::softgpu
