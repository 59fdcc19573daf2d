// From the kernel object in a dispatch packet to what we know of the kernel: read for every dispatch, without
// a lock and without waiting.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace kerncap::hsa {

inline constexpr std::uint32_t k_no_rule = 0xFFFFFFFFu;

// What a kernel object points to: tells the device where the code begins, and what it needs.
using KernelDescriptor = std::array<std::byte, 64>;

struct Variant;

struct Kernel {
  std::uint32_t id = 0;               // ours, unique in the process
  std::uint32_t rule = k_no_rule;     // which rule of the collector wants it
  std::uint32_t device = 0;
  std::uint32_t kernarg_bytes = 0;    // 0: the code object's symbol does not tell
  bool enqueues = false;              // it is the one by which OpenCL enqueues others
  std::uint64_t module = 0;
  const KernelDescriptor* descriptor = nullptr;  // as the code object's file has it; only of kernels that are wanted
  const Variant* variant = nullptr;   // replace mode: what runs in its place
};

class KernelTable {
 public:
  KernelTable();

  // Lock-free. Null for an object that is unknown or gone.
  [[nodiscard]] const Kernel* find(std::uint64_t kernel_object) const noexcept {
    const Table* table = m_table.load(std::memory_order_acquire);
    for (std::size_t i = hash(kernel_object);; ++i) {
      const Slot& slot = table->slots[i & table->mask];
      const std::uint64_t key = slot.key.load(std::memory_order_acquire);
      if (key == kernel_object) return slot.kernel.load(std::memory_order_acquire);
      if (key == 0) return nullptr;
    }
  }

  void add(std::uint64_t kernel_object, const Kernel& kernel);
  void remove_module(std::uint64_t module);

 private:
  struct Slot {
    std::atomic<std::uint64_t> key{0};
    std::atomic<const Kernel*> kernel{nullptr};
  };
  struct Table {
    explicit Table(std::size_t size) : mask(size - 1), slots(new Slot[size]) {}
    std::size_t mask;
    std::unique_ptr<Slot[]> slots;
  };
  static std::size_t hash(std::uint64_t key) noexcept {
    return static_cast<std::size_t>((key >> 6) * 0x9E3779B97F4A7C15ull >> 20);
  }
  static void insert(Table& table, std::uint64_t key, const Kernel* kernel) noexcept;

  std::atomic<Table*> m_table;
  std::mutex m_mutex;                                // writers
  std::size_t m_keys = 0;
  // Readers may still look at old tables and kernels: neither is ever freed. Both grow with what is loaded.
  std::vector<std::unique_ptr<Table>> m_tables;
  std::vector<std::unique_ptr<Kernel>> m_kernels;
};

}  // namespace kerncap::hsa
