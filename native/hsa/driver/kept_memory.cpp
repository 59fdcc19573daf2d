#include "hsa/driver/kept_memory.hpp"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>

namespace kerncap::hsa {
namespace {

constexpr std::uint64_t k_page = 4096;
constexpr std::uint64_t k_slab_bytes = std::uint64_t{2} << 20;   // for one thread at a time
constexpr std::byte k_zeros[k_page] = {};
constexpr std::uint64_t k_at_once = 64;                  // pages that mincore() is asked for
constexpr std::uint32_t k_not_copied = UINT32_MAX;       // for a place in a copy

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// mincore() says of a page on a swap device that it is not in memory.
bool may_be_swapped() {
  struct sysinfo machine = {};
  return ::sysinfo(&machine) != 0 || machine.freeswap != machine.totalswap;
}

void find_touched(std::uint64_t begin, std::uint64_t bytes, std::uint8_t* touched) {
  if (::mincore(pointer(begin), bytes, touched) != 0) std::memset(touched, 1, (bytes + k_page - 1) / k_page);
}

const std::byte* memory(std::uint64_t address, bool is_touched) {
  return is_touched ? static_cast<const std::byte*>(pointer(address)) : k_zeros;
}

// Each page is one thread's at a time, but for pages that two ranges share. What is copied before a write is there for whoever
// sees the flag.
bool is_set(std::uint8_t& flag) { return std::atomic_ref(flag).load(std::memory_order_acquire) != 0; }

void set(std::uint8_t& flag, bool value) { std::atomic_ref(flag).store(value ? 1 : 0, std::memory_order_release); }

// Nothing of it takes memory until it is written. Null: there is no room.
std::byte* reserve(std::uint64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* got = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  // It is written from its beginning on, without gaps.
  ::madvise(got, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(got);
}

std::uint64_t offset_of(std::uint32_t place, std::uint64_t address) {
  return (place - std::uint64_t{1}) * k_page + (address & (k_page - 1));
}

}  // namespace

bool is_touched(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint8_t> touched((end - begin) / k_page);
  find_touched(begin, end - begin, touched.data());
  return std::any_of(touched.begin(), touched.end(), [](std::uint8_t page) { return (page & 1) != 0; }) || may_be_swapped();
}

std::uint64_t KeptMemory::Part::first_address() const { return address & ~(k_page - 1); }

std::uint64_t KeptMemory::Part::pages() const { return (address + bytes - first_address() + k_page - 1) / k_page; }

KeptMemory::~KeptMemory() {
  for (std::byte* copy : {m_first, m_last}) {
    if (copy != nullptr) ::munmap(copy, m_pages * k_page);
  }
}

void KeptMemory::add(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0) return;
  m_all.push_back({m_parts.size(), address, address + bytes});
  m_part_of[address + bytes] = m_parts.size();
  m_parts.push_back({address, bytes, m_pages});
  m_pages += m_parts.back().pages();
}

const std::byte* KeptMemory::first(const Page& page) const {
  const std::uint32_t place = m_in_first[page.number];
  return place != 0 ? m_first + offset_of(place, page.address) : k_zeros;
}

const std::byte* KeptMemory::last(const Page& page) const {
  const std::uint32_t place = m_in_last[page.number];
  return place != 0 ? m_last + offset_of(place, page.address) : first(page);
}

void KeptMemory::note_write(std::uint64_t address, std::uint64_t bytes) {
  if (m_may_differ.empty()) return;
  for (auto at = m_part_of.upper_bound(address); at != m_part_of.end(); ++at) {
    const Part& part = m_parts[at->second];
    if (part.address >= address + bytes) return;
    const std::uint64_t begin = std::max(address, part.address);
    const std::uint64_t end = std::min(address + bytes, part.address + part.bytes);
    note_pages(part, (begin - part.first_address()) / k_page, (end - 1 - part.first_address()) / k_page + 1);
  }
}

// Most calls are for pages that were told before.
void KeptMemory::note_pages(const Part& part, std::uint64_t begin, std::uint64_t end) {
  const auto may_differ = std::span(m_may_differ).subspan(part.first_page + begin, end - begin);
  if (std::all_of(may_differ.begin(), may_differ.end(), is_set)) return;
  if (m_copies_before_writes) {
    const std::lock_guard lock(m_first_mutex);
    for (std::uint64_t page = begin; page < end; page += k_at_once) copy_first(part, page, std::min(page + k_at_once, end));
  }
  for (std::uint8_t& page : may_differ) set(page, true);
}

void KeptMemory::copy_first(const Part& part, std::uint64_t begin, std::uint64_t end) {
  std::uint8_t touched[k_at_once];
  hsa::find_touched(part.first_address() + begin * k_page, (end - begin) * k_page, touched);
  const bool is_any_touched = may_be_swapped();
  for (std::uint64_t page = begin; page < end; ++page) {
    std::uint32_t& place = m_in_first[part.first_page + page];
    if (place != k_not_copied) continue;
    place = 0;
    if ((touched[page - begin] & 1) == 0 && !is_any_touched) continue;
    place = ++m_first_taken;
    const std::uint64_t address = std::max(part.first_address() + page * k_page, part.address);
    const std::uint64_t behind = std::min(part.first_address() + (page + 1) * k_page, part.address + part.bytes);
    std::memcpy(m_first + offset_of(place, address), pointer(address), behind - address);
  }
}

void KeptMemory::spread_run() {
  if (std::exchange(m_has_run, false)) std::fill(m_may_differ.begin(), m_may_differ.end(), std::uint8_t{1});
}

bool KeptMemory::keep() {
  const bool is_first = m_first == nullptr;
  std::byte*& copy = is_first ? m_first : m_last;
  if (copy == nullptr) copy = reserve(m_pages * k_page);
  if (copy == nullptr) return false;
  std::vector<std::uint32_t>& places = is_first ? m_in_first : m_in_last;
  std::atomic<std::uint32_t> taken{0};
  m_in_first.resize(m_pages);
  m_in_last.resize(m_pages);
  m_may_differ.resize(m_pages);
  if (is_first && m_copies_before_writes) {
    std::fill(m_in_first.begin(), m_in_first.end(), k_not_copied);
    return true;
  }
  spread_run();
  for_each_page(m_all, [&, this](const Page& page) {
    if (!is_first && !is_set(m_may_differ[page.number])) {
      m_in_last[page.number] = 0;
      return;
    }
    const std::byte* const now = memory(page.address, page.is_touched);
    const bool is_same = now == k_zeros ? m_in_first[page.number] == 0 : std::memcmp(now, first(page), page.bytes) == 0;
    const std::uint32_t place = is_same ? 0 : taken.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!is_same) std::memcpy(copy + offset_of(place, page.address), now, page.bytes);
    places[page.number] = place;
    set(m_may_differ[page.number], !is_first && !is_same);
  });
  return true;
}

std::vector<std::uint32_t> KeptMemory::changed(std::uint64_t piece_bytes) {
  std::vector<std::uint64_t> first_piece;          // of each part
  std::uint64_t pieces = 0;
  for (const Part& part : m_parts) {
    first_piece.push_back(pieces);
    pieces += (part.bytes + piece_bytes - 1) / piece_bytes;
  }
  std::vector<std::uint32_t> words(pieces);
  spread_run();
  for_each_page(m_all, [&](const Page& page) {
    const bool is_first = m_in_last[page.number] == 0;         // the last copy is the first
    if (is_first && !is_set(m_may_differ[page.number])) return;
    const std::byte* const now = memory(page.address, page.is_touched);
    const std::byte* const before = last(page);
    const bool is_same = now == before || std::memcmp(now, before, page.bytes) == 0;
    if (is_first) set(m_may_differ[page.number], !is_same);
    if (is_same) return;
    const std::uint64_t offset = page.address - m_parts[page.part].address;
    // Of memory that does not begin with a page, a page may lie in two pieces: both count.
    for (const std::uint64_t at : {offset, offset + page.bytes - 1}) {
      std::atomic_ref(words[first_piece[page.part] + at / piece_bytes]).store(1, std::memory_order_relaxed);
    }
  });
  return words;
}

bool KeptMemory::cover(std::uint64_t address, std::uint64_t bytes) {
  if (m_first == nullptr) return false;
  for (const Range& part : m_all) {
    if (address < part.begin || address + bytes > part.end) continue;
    m_covered.push_back({part.part, address, address + bytes});
    return true;
  }
  return false;
}

void KeptMemory::put_back() {
  spread_run();
  for_each_page(m_covered, [this](const Page& page) {
    if (!is_set(m_may_differ[page.number])) return;
    if (page.is_all) set(m_may_differ[page.number], false);
    const std::byte* const now = memory(page.address, page.is_touched);
    const std::byte* const before = first(page);
    if (now == before || std::memcmp(now, before, page.bytes) == 0) return;
    std::memcpy(pointer(page.address), before, page.bytes);
  });
}

// All pages first, and then the swap devices: what mincore() did not find in memory was in none of them either.
void KeptMemory::find_touched() {
  m_touched.resize(m_pages);
  for (const Part& part : m_parts) {
    hsa::find_touched(part.first_address(), part.pages() * k_page, &m_touched[part.first_page]);
  }
  if (may_be_swapped()) std::fill(m_touched.begin(), m_touched.end(), std::uint8_t{1});
}

template <typename Work>
void KeptMemory::for_each_page(const std::vector<Range>& ranges, const Work& work) {
  find_touched();
  std::vector<Range> slabs;
  for (const Range& range : ranges) {
    for (std::uint64_t begin = range.begin; begin < range.end;) {
      const std::uint64_t end = std::min((begin & ~(k_page - 1)) + k_slab_bytes, range.end);
      slabs.push_back({range.part, begin, end});
      begin = end;
    }
  }
  m_pool.run(slabs.size(), [&](std::size_t, std::size_t item) {
    const Range& slab = slabs[item];
    const Part& part = m_parts[slab.part];
    for (std::uint64_t begin = slab.begin; begin < slab.end;) {
      const std::uint64_t end = std::min((begin & ~(k_page - 1)) + k_page, slab.end);
      const std::uint64_t offset = begin - part.first_address();
      const std::uint64_t number = part.first_page + offset / k_page;
      const bool is_all = begin == std::max(part.address, begin & ~(k_page - 1)) &&
                          end == std::min(part.address + part.bytes, (begin & ~(k_page - 1)) + k_page);
      work(Page{slab.part, number, begin, static_cast<std::size_t>(end - begin), (m_touched[number] & 1) != 0, is_all});
      begin = end;
    }
  });
}

}  // namespace kerncap::hsa
