// How packet processors touch memory: through the GPU's page table, and guarded against the program's own unmapping.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>

#include "softgpu/device/aql.hpp"
#include "softgpu/device/events.hpp"
#include "softgpu/memory/address_space.hpp"
#include "softgpu/memory/host_guard.hpp"

namespace kerncap::softgpu {

struct MemoryFault {
  enum class Reason : std::uint8_t {
    no_page,    // nothing in the GPU's page table
    no_right,   // a page without the wanted right
    misaligned, // for an atomic access
    host,       // `host` says why
  };
  std::uint64_t address = 0;
  Rights wanted = Rights::read;
  Reason reason = Reason::no_page;
  HostFault::Reason host = HostFault::Reason::none;

  [[nodiscard]] bool is_write() const noexcept { return wanted == Rights::write; }
  // Memory is there, and may not be written: as the driver tells it.
  [[nodiscard]] bool is_read_only() const noexcept {
    return is_write() && (reason == Reason::no_right || host == HostFault::Reason::read_only);
  }
  // For messages, before and after the address. `owner`: whose memory is there when the GPU has no page, or empty.
  [[nodiscard]] const char* what() const noexcept { return is_write() ? "write" : "read"; }
  [[nodiscard]] std::string_view why(std::string_view owner) const noexcept;
};

class GpuMemory {
 public:
  explicit GpuMemory(const AddressSpace& space) noexcept : m_space(space) {}

  // Each opens a View of its own; false or empty after a fault, of which fault() tells.
  [[nodiscard]] bool read(std::uint64_t va, void* out, std::uint64_t size_bytes) noexcept;
  [[nodiscard]] bool write(std::uint64_t va, const void* data, std::uint64_t size_bytes) noexcept;
  [[nodiscard]] bool copy(std::uint64_t to, std::uint64_t from, std::uint64_t size_bytes) noexcept;
  [[nodiscard]] bool fill(std::uint64_t va, std::uint32_t pattern, unsigned element_bytes,
                          std::uint64_t size_bytes) noexcept;

  // Naturally aligned values that other threads read and write meanwhile. Acquire and release, or both.
  template <typename T>
  [[nodiscard]] std::optional<T> load(std::uint64_t va) noexcept {
    T value{};
    if (!atomically<T>(va, Rights::read, [&](std::atomic_ref<T> place) { value = place.load(); })) return std::nullopt;
    return value;
  }
  template <typename T>
  [[nodiscard]] bool store(std::uint64_t va, T value) noexcept {
    return atomically<T>(va, Rights::write, [&](std::atomic_ref<T> place) { place.store(value); });
  }
  template <typename T>
  [[nodiscard]] bool add(std::uint64_t va, T value) noexcept {
    return atomically<T>(va, Rights::write, [&](std::atomic_ref<T> place) { place.fetch_add(value); });
  }

  [[nodiscard]] const MemoryFault& fault() const noexcept { return m_fault; }

 private:
  using Action = void (*)(std::byte* host, void* context);
  [[nodiscard]] bool access(std::uint64_t va, std::uint64_t size_bytes, Rights wanted, Action action,
                            void* context) noexcept;
  [[nodiscard]] std::uint64_t span(const AddressSpace::View& view, std::uint64_t va, std::uint64_t size_bytes,
                                   Rights wanted, std::byte*& host) noexcept;

  template <typename T, typename Function>
  [[nodiscard]] bool atomically(std::uint64_t va, Rights wanted, Function function) noexcept {
    if (va % sizeof(T) != 0) {
      m_fault = {va, wanted, MemoryFault::Reason::misaligned};
      return false;
    }
    return access(va, sizeof(T), wanted, [](std::byte* host, void* context) {
      (*static_cast<Function*>(context))(std::atomic_ref<T>(*reinterpret_cast<T*>(host)));
    }, &function);
  }

  // Notes a fault of the host at `va`; true if there was one.
  [[nodiscard]] bool failed(const HostFault& fault, std::uint64_t va, Rights wanted) noexcept;

  const AddressSpace& m_space;
  MemoryFault m_fault;
};

// A signal's value changes as the packet processor's last step for a packet, and wakes who waits for it.
struct TimeStamps {
  std::uint64_t start = 0, end = 0;  // GPU ticks
};
[[nodiscard]] bool complete_signal(GpuMemory& memory, EventTable& events, std::uint64_t signal_va,
                                   std::optional<TimeStamps> stamps) noexcept;
[[nodiscard]] bool store_signal(GpuMemory& memory, EventTable& events, std::uint64_t signal_va,
                                std::int64_t value) noexcept;

}  // namespace kerncap::softgpu
