// Which bytes of some ranges of memory one dispatch reads and writes: two bits a byte, for all workers at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerncap::softgpu {

struct AccessRange {
  std::uint64_t begin = 0, end = 0;
};

class AccessRecord {
 public:
  struct Count {
    std::uint64_t read_bytes = 0;     // before the dispatch wrote them: what it needs of the state before
    std::uint64_t written_bytes = 0;
  };

  // `ranges`: ascending and disjoint; they outlive this. If there is no memory, everything counts as 0 and is_whole() is false.
  explicit AccessRecord(const std::vector<AccessRange>& ranges);
  ~AccessRecord();
  AccessRecord(const AccessRecord&) = delete;
  AccessRecord& operator=(const AccessRecord&) = delete;

  // Any thread. `hint`: the caller's own; where the last access of its was.
  void read(std::uint64_t va, std::uint64_t bytes, std::size_t& hint) noexcept { mark<false>(va, bytes, hint); }
  void write(std::uint64_t va, std::uint64_t bytes, std::size_t& hint) noexcept { mark<true>(va, bytes, hint); }

  // One for each range, once nobody reads or writes any more.
  [[nodiscard]] std::vector<Count> counts() const;
  [[nodiscard]] bool is_whole() const noexcept { return m_words != nullptr; }

 private:
  // The bits of 64 bytes.
  struct Word {
    std::uint64_t read, written;
  };
  template <bool k_write>
  void mark(std::uint64_t va, std::uint64_t bytes, std::size_t& hint) noexcept;
  template <bool k_write>
  void mark_word(std::uint64_t word, std::uint64_t mask) noexcept;

  const std::vector<AccessRange>& m_ranges;
  std::vector<std::uint64_t> m_first_words;  // of each range; one more for the end
  Word* m_words = nullptr;                   // pages that nobody touched do not exist
  std::vector<std::uint8_t> m_touched;       // of each page of words
};

}  // namespace kerncap::softgpu
