// A worker's cache of page table extents: the check in front of every memory access of the interpreter.
//
// A worker opens an AddressSpace::View for a time slice and calls begin_slice(); the host pointers handed out are
// good until the slice ends. Holes are never cached.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softgpu/memory/access_record.hpp"
#include "softgpu/memory/address_space.hpp"

namespace kerncap::softgpu {

class Translation {
 public:
  Translation() = default;

  void begin_slice(const AddressSpace& space, const AddressSpace::View& view) noexcept {
    const std::uint64_t generation = space.generation();
    if (&space != m_space || generation != m_generation) clear();
    m_space = &space;
    m_generation = generation;
    m_view = &view;
  }
  void end_slice() noexcept { m_view = nullptr; }

  // The host address of [va, va + size_bytes), or null when it is not all in one extent with the wanted rights.
  // The caller goes on lane by lane, or byte by byte, when a span crosses extents, and faults when one byte fails.
  [[nodiscard]] std::byte* host(std::uint64_t va, std::uint64_t size_bytes, Rights wanted) noexcept {
    const Extent& entry = m_entries[slot(va)];
    if (entry.contains(va, size_bytes) && allows(entry.rights, wanted)) [[likely]] return entry.host(va);
    return host_slow(va, size_bytes, wanted);
  }

  // Whose accesses are recorded from now on; null: nobody's.
  void record(AccessRecord* record) noexcept {
    m_record = record;
    m_recorded_range = 0;
  }
  [[nodiscard]] bool is_recorded() const noexcept { return m_record != nullptr; }
  // Only while is_recorded(). A read before the access itself: what comes before a write counts.
  void note_read(std::uint64_t va, std::uint64_t size_bytes) noexcept { m_record->read(va, size_bytes, m_recorded_range); }
  void note_write(std::uint64_t va, std::uint64_t size_bytes) noexcept { m_record->write(va, size_bytes, m_recorded_range); }

  // The rights at one address, for telling an unmapped address from a forbidden access.
  [[nodiscard]] Rights rights(std::uint64_t va) const noexcept { return m_view->find(va).rights; }

 private:
  static constexpr unsigned k_entries = 64;

  // Neighbouring allocations differ in bits 12 to 21, big ones in bits 21 and up.
  [[nodiscard]] static unsigned slot(std::uint64_t va) noexcept {
    return static_cast<unsigned>((va >> 12) ^ (va >> 18) ^ (va >> 24) ^ (va >> 30)) % k_entries;
  }
  [[nodiscard]] std::byte* host_slow(std::uint64_t va, std::uint64_t size_bytes, Rights wanted) noexcept;
  void clear() noexcept;

  const AddressSpace* m_space = nullptr;
  const AddressSpace::View* m_view = nullptr;
  std::uint64_t m_generation = 0;
  AccessRecord* m_record = nullptr;
  std::size_t m_recorded_range = 0;
  Extent m_entries[k_entries];
};

}  // namespace kerncap::softgpu
