#include "softgpu/memory/access_record.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "softgpu/memory/recorded_reads.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::uint64_t k_page_words = 256;  // 4 KiB of them, for 16 KiB of memory

[[nodiscard]] std::uint64_t bits(std::uint64_t from, std::uint64_t count) noexcept {
  return (count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << from;
}

}  // namespace

AccessRecord::AccessRecord(const std::vector<AccessRange>& ranges) : m_ranges(ranges) {
  std::uint64_t words = 0;
  for (const AccessRange& range : ranges) {
    m_first_words.push_back(words);
    words += (range.end - range.begin + 63) / 64;
  }
  m_first_words.push_back(words);
  void* const memory = words == 0 ? MAP_FAILED
                                  : mmap(nullptr, words * sizeof(Word), PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  m_words = static_cast<Word*>(memory);
  m_touched.resize(words / k_page_words + 1);
}

AccessRecord::~AccessRecord() {
  if (m_words != nullptr) munmap(m_words, m_first_words.back() * sizeof(Word));
}

template <bool k_write>
void AccessRecord::mark(std::uint64_t va, std::uint64_t bytes, std::size_t& hint) noexcept {
  if (m_words == nullptr || (!k_write && !g_records_reads.load(std::memory_order_relaxed))) return;
  const std::uint64_t end = va + bytes;
  if (hint >= m_ranges.size() || va < m_ranges[hint].begin || va >= m_ranges[hint].end) {
    // The first range that ends behind the address.
    const auto found = std::upper_bound(m_ranges.begin(), m_ranges.end(), va,
                                        [](std::uint64_t at, const AccessRange& range) { return at < range.end; });
    if (found == m_ranges.end()) return;
    hint = static_cast<std::size_t>(found - m_ranges.begin());
  }
  for (std::size_t i = hint; i < m_ranges.size() && m_ranges[i].begin < end; ++i) {
    const std::uint64_t last = std::min(end, m_ranges[i].end) - m_ranges[i].begin;
    for (std::uint64_t at = std::max(va, m_ranges[i].begin) - m_ranges[i].begin; at < last;) {
      const std::uint64_t count = std::min(last - at, 64 - at % 64);
      mark_word<k_write>(m_first_words[i] + at / 64, bits(at % 64, count));
      at += count;
    }
  }
}

template <bool k_write>
void AccessRecord::mark_word(std::uint64_t word, std::uint64_t mask) noexcept {
  const std::atomic_ref<std::uint64_t> read(m_words[word].read), written(m_words[word].written);
  const std::uint64_t before = written.load(std::memory_order_relaxed);
  if constexpr (k_write) {
    if ((mask & ~before) == 0) return;
    written.fetch_or(mask, std::memory_order_relaxed);
  } else {
    // What the dispatch has written itself it does not need of the state before.
    const std::uint64_t needed = mask & ~before;
    if ((needed & ~read.load(std::memory_order_relaxed)) == 0) return;
    read.fetch_or(needed, std::memory_order_relaxed);
  }
  std::atomic_ref<std::uint8_t>(m_touched[word / k_page_words]).store(1, std::memory_order_relaxed);
}

std::vector<AccessRecord::Count> AccessRecord::counts() const {
  std::vector<Count> counts(m_ranges.size());
  if (m_words == nullptr) return counts;
  for (std::size_t i = 0; i < m_ranges.size(); ++i) {
    const std::uint64_t last = m_first_words[i + 1];
    for (std::uint64_t word = m_first_words[i]; word < last;) {
      const std::uint64_t page_end = std::min(last, (word / k_page_words + 1) * k_page_words);
      if (m_touched[word / k_page_words] == 0) {
        word = page_end;
        continue;
      }
      for (; word < page_end; ++word) {
        counts[i].read_bytes += static_cast<std::uint64_t>(std::popcount(m_words[word].read));
        counts[i].written_bytes += static_cast<std::uint64_t>(std::popcount(m_words[word].written));
      }
    }
  }
  return counts;
}

template void AccessRecord::mark<false>(std::uint64_t, std::uint64_t, std::size_t&) noexcept;
template void AccessRecord::mark<true>(std::uint64_t, std::uint64_t, std::size_t&) noexcept;

}  // namespace kerncap::softgpu
