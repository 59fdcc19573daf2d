// The writers' side of the kernel table: open addressing, replaced as a whole when it grows.
#include "hsa/kernels.hpp"

namespace kerncap::hsa {

namespace {
constexpr std::size_t k_first_size = 4096;
}

KernelTable::KernelTable() {
  m_tables.push_back(std::make_unique<Table>(k_first_size));
  m_table.store(m_tables.back().get(), std::memory_order_release);
}

void KernelTable::insert(Table& table, std::uint64_t key, const Kernel* kernel) noexcept {
  for (std::size_t i = hash(key);; ++i) {
    Slot& slot = table.slots[i & table.mask];
    const std::uint64_t present = slot.key.load(std::memory_order_relaxed);
    if (present != 0 && present != key) continue;
    slot.kernel.store(kernel, std::memory_order_release);
    slot.key.store(key, std::memory_order_release);
    return;
  }
}

void KernelTable::add(std::uint64_t kernel_object, const Kernel& kernel) {
  if (kernel_object == 0) return;
  const std::lock_guard lock(m_mutex);
  m_kernels.push_back(std::make_unique<Kernel>(kernel));
  Table* table = m_table.load(std::memory_order_relaxed);
  if (2 * (m_keys + 1) > table->mask) {
    m_tables.push_back(std::make_unique<Table>(2 * (table->mask + 1)));
    Table* larger = m_tables.back().get();
    m_keys = 0;
    for (std::size_t i = 0; i <= table->mask; ++i) {
      const Kernel* kept = table->slots[i].kernel.load(std::memory_order_relaxed);
      if (kept == nullptr) continue;
      insert(*larger, table->slots[i].key.load(std::memory_order_relaxed), kept);
      ++m_keys;
    }
    m_table.store(larger, std::memory_order_release);
    table = larger;
  }
  insert(*table, kernel_object, m_kernels.back().get());
  ++m_keys;  // an object that comes back at an old address counts twice: that only grows the table early
}

void KernelTable::remove_module(std::uint64_t module) {
  const std::lock_guard lock(m_mutex);
  Table* table = m_table.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i <= table->mask; ++i) {
    Slot& slot = table->slots[i];
    const Kernel* kernel = slot.kernel.load(std::memory_order_relaxed);
    if (kernel != nullptr && kernel->module == module) slot.kernel.store(nullptr, std::memory_order_release);
  }
}

}  // namespace kerncap::hsa
