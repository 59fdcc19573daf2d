// Reads a 64-bit ELF file that may be anything: no read leaves the bytes, whatever its tables say.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace kerncap::core {

// A table of an ELF file. Entries are copied out: nothing in a file need be aligned.
template <typename Entry>
class ElfTable {
 public:
  class Iterator {
   public:
    Iterator(const ElfTable& table, std::size_t index) noexcept : m_table(&table), m_index(index) {}
    [[nodiscard]] Entry operator*() const noexcept { return (*m_table)[m_index]; }
    Iterator& operator++() noexcept { return ++m_index, *this; }
    [[nodiscard]] bool operator!=(const Iterator& other) const noexcept { return m_index != other.m_index; }

   private:
    const ElfTable* m_table;
    std::size_t m_index;
  };

  ElfTable() noexcept = default;
  explicit ElfTable(std::span<const std::byte> bytes) noexcept : m_bytes(bytes) {}
  [[nodiscard]] std::size_t size() const noexcept { return m_bytes.size() / sizeof(Entry); }
  [[nodiscard]] Entry operator[](std::size_t index) const noexcept {
    Entry entry;
    std::memcpy(&entry, m_bytes.data() + index * sizeof(Entry), sizeof entry);
    return entry;
  }
  [[nodiscard]] Iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] Iterator end() const noexcept { return {*this, size()}; }

 private:
  std::span<const std::byte> m_bytes;
};

class ElfFile {
 public:
  // bytes: borrowed as long as this lives. Nothing unless they begin with the header of a 64-bit ELF file.
  [[nodiscard]] static std::optional<ElfFile> open(std::span<const std::byte> bytes) noexcept {
    ElfFile file(bytes);
    const auto header = file.read<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
    if (header->e_ident[EI_CLASS] != ELFCLASS64) return std::nullopt;
    file.m_header = *header;
    return file;
  }

  [[nodiscard]] const Elf64_Ehdr& header() const noexcept { return m_header; }

  // Where the last of the two tables ends that a header speaks of. A sum that is too large is the largest number.
  [[nodiscard]] static std::uint64_t end_of_tables(const Elf64_Ehdr& header) noexcept {
    return std::max({std::uint64_t{sizeof header}, sum(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)),
                     sum(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr))});
  }
  // Where the last thing ends that the tables speak of, in the bytes or behind them. Nothing if a table is not all there.
  [[nodiscard]] std::optional<std::uint64_t> end_of_contents() const noexcept {
    if (segments().size() != m_header.e_phnum || sections().size() != m_header.e_shnum) return std::nullopt;
    std::uint64_t end = end_of_tables(m_header);
    for (const Elf64_Phdr& segment : segments()) end = std::max(end, sum(segment.p_offset, segment.p_filesz));
    for (const Elf64_Shdr& section : sections()) {
      const bool is_in_file = section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL;
      if (is_in_file) end = std::max(end, sum(section.sh_offset, section.sh_size));
    }
    return end;
  }

  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size_bytes) const noexcept {
    return offset <= m_bytes.size() && size_bytes <= m_bytes.size() - offset;
  }
  // Empty if they are not all there.
  [[nodiscard]] std::span<const std::byte> part(std::uint64_t offset, std::uint64_t size_bytes) const noexcept {
    return holds(offset, size_bytes) ? m_bytes.subspan(offset, size_bytes) : std::span<const std::byte>{};
  }
  template <typename T>
  [[nodiscard]] std::optional<T> read(std::uint64_t offset) const noexcept {
    if (!holds(offset, sizeof(T))) return std::nullopt;
    T value;
    std::memcpy(&value, m_bytes.data() + offset, sizeof value);
    return value;
  }

  // Tables that have another form, or are not all in the file, are empty.
  [[nodiscard]] ElfTable<Elf64_Phdr> segments() const noexcept {
    return table<Elf64_Phdr>(m_header.e_phoff, m_header.e_phnum, m_header.e_phentsize);
  }
  [[nodiscard]] ElfTable<Elf64_Shdr> sections() const noexcept {
    return table<Elf64_Shdr>(m_header.e_shoff, m_header.e_shnum, m_header.e_shentsize);
  }
  [[nodiscard]] ElfTable<Elf64_Sym> symbols(const Elf64_Shdr& section) const noexcept {
    return table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym), section.sh_entsize);
  }

  [[nodiscard]] std::optional<Elf64_Shdr> section(std::uint64_t index) const noexcept {
    const ElfTable<Elf64_Shdr> all = sections();
    return index < all.size() ? std::optional(all[index]) : std::nullopt;
  }
  // The string that begins `at` bytes into a string table; nothing if it does not end there.
  [[nodiscard]] std::optional<std::string_view> text(const Elf64_Shdr& strings, std::uint64_t at) const noexcept {
    const std::span<const std::byte> table = part(strings.sh_offset, strings.sh_size);
    if (at >= table.size()) return std::nullopt;
    const auto* const begin = reinterpret_cast<const char*>(table.data()) + at;
    const std::size_t room = table.size() - at, length = ::strnlen(begin, room);
    return length == room ? std::nullopt : std::optional(std::string_view(begin, length));
  }

 private:
  explicit ElfFile(std::span<const std::byte> bytes) noexcept : m_bytes(bytes) {}
  [[nodiscard]] static std::uint64_t sum(std::uint64_t offset, std::uint64_t size_bytes) noexcept {
    std::uint64_t end = 0;
    return __builtin_add_overflow(offset, size_bytes, &end) ? ~std::uint64_t{0} : end;
  }
  template <typename Entry>
  [[nodiscard]] ElfTable<Entry> table(std::uint64_t offset, std::uint64_t count, std::uint64_t entry_bytes) const noexcept {
    if (entry_bytes != sizeof(Entry) || count > m_bytes.size() / sizeof(Entry)) return {};
    return ElfTable<Entry>(part(offset, count * sizeof(Entry)));
  }

  std::span<const std::byte> m_bytes;
  Elf64_Ehdr m_header{};
};

}  // namespace kerncap::core
