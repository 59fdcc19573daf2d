// Copies of memory that the processor reaches at its own address, as that of a software GPU: they tell what a run has
// changed, and put it back. Pages that nobody has touched are zero: they are neither copied nor read. The owner says what
// may have been written since the last call: other pages are as they were, and not compared again. If it can say so before
// each write, only pages that are written are ever copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "core/worker_pool.hpp"

namespace kerncap::hsa {

// Whether whole pages from `begin` to `end` have been touched since they were mapped. Pages that may be on a swap device
// count as touched.
[[nodiscard]] bool is_touched(std::uint64_t begin, std::uint64_t end);

class KeptMemory {
 public:
  explicit KeptMemory(core::WorkerPool& pool) : m_pool(pool) {}
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  ~KeptMemory();

  [[nodiscard]] bool is_empty() const noexcept { return m_parts.empty(); }
  // Before the first keep(); parts do not overlap. Untouched pages of the memory read as zeros.
  void add(std::uint64_t address, std::uint64_t bytes);
  // Before the first keep(): from then on note_write() comes before every write, also of runs. Copies are made by it.
  void copy_before_writes() noexcept { m_copies_before_writes = true; }
  // What may have been written since: some bytes, or anything, as by a run of a kernel. If copies are made before writes,
  // any number of threads may say so at once, while none of the other calls runs, and note_run() does not come.
  void note_write(std::uint64_t address, std::uint64_t bytes);
  void note_run() noexcept { m_has_run = true; }
  // Copies the memory as it is now, or will do so before it is written. Later calls copy only what differs from the first copy.
  // False: there is no room.
  [[nodiscard]] bool keep();
  // Which words of changed() belong to pieces that are not as at the last keep(): one for each piece of each part, one
  // after the other; not 0 if anything in the piece differs.
  [[nodiscard]] std::vector<std::uint32_t> changed(std::uint64_t piece_bytes);

  // Makes put_back() cover this memory. False: it is not within one part, or there is no copy yet.
  [[nodiscard]] bool cover(std::uint64_t address, std::uint64_t bytes);
  // Brings all that is covered back to what it was at the first keep().
  void put_back();

 private:
  struct Part {
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t first_page;            // of all parts' pages

    [[nodiscard]] std::uint64_t first_address() const;
    [[nodiscard]] std::uint64_t pages() const;
  };
  struct Range {
    std::size_t part;
    std::uint64_t begin;
    std::uint64_t end;
  };
  // A page as far as it belongs to a range.
  struct Page {
    std::size_t part;
    std::uint64_t number;                // of all parts' pages
    std::uint64_t address;
    std::size_t bytes;
    bool is_touched;
    bool is_all;                         // whether these are all bytes of the part in that page
  };

  template <typename Work>
  void for_each_page(const std::vector<Range>& ranges, const Work& work);
  void find_touched();
  void spread_run();
  // Pages [begin, end) of the part.
  void note_pages(const Part& part, std::uint64_t begin, std::uint64_t end);
  void copy_first(const Part& part, std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] const std::byte* first(const Page& page) const;
  [[nodiscard]] const std::byte* last(const Page& page) const;

  core::WorkerPool& m_pool;
  std::vector<Part> m_parts;
  std::map<std::uint64_t, std::size_t> m_part_of;  // by the address behind it
  std::vector<Range> m_all;                // the parts
  std::vector<Range> m_covered;
  std::uint64_t m_pages = 0;
  std::byte* m_first = nullptr;            // the first copy
  std::byte* m_last = nullptr;             // the last one, of pages that differ from the first
  // Of each page, its place in a copy, from 1 on: what is not in it takes no memory.
  std::vector<std::uint32_t> m_in_first;   // 0: it was zero; k_not_copied: nobody has written it since
  std::vector<std::uint32_t> m_in_last;    // 0: it is as in the first copy
  std::vector<std::uint8_t> m_touched;     // the same; bit 0, as mincore() tells
  std::vector<std::uint8_t> m_may_differ;  // the same; 0: it is as in the first copy, unless m_has_run
  bool m_has_run = false;                  // any page may differ
  bool m_copies_before_writes = false;
  std::mutex m_first_mutex;                // of what note_write() copies
  std::uint32_t m_first_taken = 0;         // places of the first copy
};

}  // namespace kerncap::hsa
