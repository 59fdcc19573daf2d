#include "softgpu/exec/code_cache.hpp"

#include "softgpu/exec/code_page.hpp"

namespace kerncap::softgpu {
namespace {

// Beyond this many pages (16 MiB of code) everything is forgotten: large libraries run through many kernels.
constexpr std::size_t k_page_limit = 4096;

void code_fault(Fault& fault, Target target, std::uint64_t pc, FaultKind kind) noexcept {
  fault = Fault{};
  fault.kind = kind;
  fault.access = AccessKind::execute;
  fault.target = target;
  fault.address = pc;
  fault.pc = pc;
}

}  // namespace

CodeCache::CodeCache(Target target) : m_target(target) {}
CodeCache::~CodeCache() = default;

const Instruction* CodeCache::find(Translation& memory, std::uint64_t pc, Fault& fault) {
  m_executed = nullptr;
  if (pc % 4 != 0) {
    code_fault(fault, m_target, pc, FaultKind::bad_code_address);
    return nullptr;
  }
  const std::uint64_t base = pc & ~(k_code_page_bytes - 1);
  if (m_last == nullptr || m_last->base() != base || m_last->epoch != m_epoch) {
    // A page that is gone from memory faults while it is read, and may have been the last one.
    m_last = nullptr;
    m_last = page(memory, base);
    if (m_last == nullptr) {
      code_fault(fault, m_target, pc, FaultKind::bad_code_address);
      return nullptr;
    }
  }
  return m_last->at(pc, fault);
}

const Instruction* CodeCache::after(Translation& memory, const Instruction& before, Fault& fault) {
  // Linked only where finding the next one cannot replace the page that holds this one.
  const std::uint64_t base = before.pc & ~(k_code_page_bytes - 1);
  const bool stable = m_last != nullptr && m_last->base() == base && m_last->epoch == m_epoch;
  const bool same_page = ((before.pc ^ before.next_pc()) & ~(k_code_page_bytes - 1)) == 0;
  const Instruction* next = find(memory, before.next_pc(), fault);
  if (next != nullptr && stable && same_page) const_cast<Instruction&>(before).next = next;
  return next;
}

CodePage* CodeCache::page(Translation& memory, std::uint64_t base) {
  const auto known = m_pages.find(base);
  if (known != m_pages.end()) {
    CodePage& page = *known->second;
    if (page.epoch == m_epoch || page.same_as_memory(memory)) {
      page.epoch = m_epoch;
      return &page;
    }
    m_pages.erase(known);
  }
  if (m_pages.size() >= k_page_limit) m_pages.clear();
  auto fresh = std::make_unique<CodePage>(m_target, base);
  if (!fresh->load(memory)) return nullptr;
  fresh->epoch = m_epoch;
  return m_pages.emplace(base, std::move(fresh)).first->second.get();
}

}  // namespace kerncap::softgpu
