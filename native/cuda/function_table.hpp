// Kernel by function handle, looked up at every launch: no lock, no allocation, one cache line as a rule.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "capture/protocol.hpp"
#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

inline constexpr std::uint32_t k_no_rule = 0xFFFFFFFFu;

// Made once for a kernel of a module, never freed: a thread may be looking at it.
struct Kernel {
  std::uint32_t id = 0;
  std::uint32_t rule = k_no_rule;
  std::uint64_t module = 0;
  CUfunction function = nullptr;        // what attributes are asked of
  const void* launched = nullptr;       // what launches name: the same, or a CUkernel
  CUmodule handle = nullptr;
  CUcontext context = nullptr;          // that it was launched in
  bool is_certain = true;               // false: `module` is one of several that may be its own

  // A CUkernel, which is another function, of another module, in each context.
  [[nodiscard]] bool is_of_library() const noexcept { return launched != function; }
  [[nodiscard]] bool is_of(CUcontext other) const noexcept { return !is_of_library() || context == other; }
};

class FunctionTable {
 public:
  // Null: never seen, or its module is gone.
  [[nodiscard]] const Kernel* find(const void* function) const noexcept { return kernel_of(look(function)); }
  // The kernel's rule, told without a look at the kernel itself, or k_no_rule; nothing where find() gives null.
  [[nodiscard]] std::optional<std::uint32_t> rule_of(const void* function) const noexcept {
    const std::uintptr_t found = look(function);
    if (found == 0) return std::nullopt;
    return static_cast<std::uint32_t>(found >> k_rule_shift) - 1;
  }
  // False when the table is full of kernels of loaded modules.
  bool add(const void* function, const Kernel* kernel) noexcept {
    const std::lock_guard lock(m_mutex);
    if (put(function, packed(kernel))) return true;
    drop_what_went();
    return put(function, packed(kernel));
  }
  void remove_module(std::uint64_t module) noexcept {
    const std::lock_guard lock(m_mutex);
    for (Entry& entry : m_entries) {
      const Kernel* kernel = kernel_of(entry.kernel.load(std::memory_order_relaxed));
      if (kernel != nullptr && kernel->module == module) entry.kernel.store(0, std::memory_order_release);
    }
  }

 private:
  static constexpr std::size_t k_capacity = 1 << 15;
  static constexpr std::size_t k_mask = k_capacity - 1;
  struct Entry {
    std::atomic<const void*> key{nullptr};
    std::atomic<std::uintptr_t> kernel{0};     // its address, and above that its rule, from 1; 0 is none
  };
  static constexpr unsigned k_rule_shift = 57;   // addresses of programs are below 2^56
  static_assert(capture::k_max_rules < 1 << (64 - k_rule_shift));
  static std::uintptr_t packed(const Kernel* kernel) noexcept {
    return reinterpret_cast<std::uintptr_t>(kernel) | std::uintptr_t{kernel->rule + 1} << k_rule_shift;
  }
  static const Kernel* kernel_of(std::uintptr_t found) noexcept {
    return reinterpret_cast<const Kernel*>(found & ((std::uintptr_t{1} << k_rule_shift) - 1));
  }
  bool put(const void* function, std::uintptr_t kernel) noexcept {
    for (std::size_t i = slot_of(function);; i = (i + 1) & k_mask) {
      const void* key = m_entries[i].key.load(std::memory_order_relaxed);
      if (key != nullptr && key != function) continue;
      if (key == nullptr) {
        if (m_count >= k_capacity / 2) return false;  // one entry always stays free: look() must end
        ++m_count;
      }
      // The key first: who has found the place by the key that it had, looks at that once more.
      m_entries[i].key.store(function, std::memory_order_release);
      m_entries[i].kernel.store(kernel, std::memory_order_release);
      return true;
    }
  }
  // Makes the table anew. Meanwhile a launch may find nothing, and its kernel is resolved anew.
  void drop_what_went() noexcept try {
    std::vector<std::pair<const void*, std::uintptr_t>> kept;
    for (const Entry& entry : m_entries) {
      const std::uintptr_t kernel = entry.kernel.load(std::memory_order_relaxed);
      if (kernel != 0) kept.emplace_back(entry.key.load(std::memory_order_relaxed), kernel);
    }
    if (kept.size() == m_count) return;
    for (Entry& entry : m_entries) {
      entry.kernel.store(0, std::memory_order_release);
      entry.key.store(nullptr, std::memory_order_release);
    }
    m_count = 0;
    for (const auto& [function, kernel] : kept) put(function, kernel);
  } catch (const std::bad_alloc&) {
  }
  [[nodiscard]] std::uintptr_t look(const void* function) const noexcept {
    for (std::size_t i = slot_of(function);; i = (i + 1) & k_mask) {
      const void* key = m_entries[i].key.load(std::memory_order_acquire);
      if (key == function) {
        const std::uintptr_t found = m_entries[i].kernel.load(std::memory_order_acquire);
        return m_entries[i].key.load(std::memory_order_relaxed) == function ? found : 0;
      }
      if (key == nullptr) return 0;
    }
  }
  static std::size_t slot_of(const void* function) noexcept {
    const auto bits = reinterpret_cast<std::uintptr_t>(function);
    return static_cast<std::size_t>((bits >> 4) * 0x9E3779B97F4A7C15ull >> 49) & k_mask;
  }

  std::array<Entry, k_capacity> m_entries;
  std::size_t m_count = 0;
  std::mutex m_mutex;
};

}  // namespace kerncap::cuda
