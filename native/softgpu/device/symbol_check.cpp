#include "softgpu/device/symbol_check.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

namespace kerncap::softgpu {
namespace {

class CodeObject {
 public:
  explicit CodeObject(std::span<const std::byte> file) noexcept : m_file(file), m_header(read<Elf64_Ehdr>(0)) {}

  template <typename T>
  [[nodiscard]] T read(std::uint64_t offset) const noexcept {
    T value;
    std::memcpy(&value, m_file.data() + offset, sizeof value);
    return value;
  }
  [[nodiscard]] std::string_view text(const Elf64_Shdr& names, std::uint64_t at) const noexcept {
    return reinterpret_cast<const char*>(m_file.data() + names.sh_offset + at);
  }
  [[nodiscard]] unsigned section_count() const noexcept { return m_header.e_shnum; }
  [[nodiscard]] Elf64_Shdr section(std::uint64_t index) const noexcept {
    return read<Elf64_Shdr>(m_header.e_shoff + index * sizeof(Elf64_Shdr));
  }
  [[nodiscard]] std::string_view name(const Elf64_Shdr& section) const noexcept {
    return text(this->section(m_header.e_shstrndx), section.sh_name);
  }
  [[nodiscard]] std::optional<Elf64_Shdr> only(std::uint32_t type) const noexcept {
    for (unsigned i = 0; i < section_count(); ++i)
      if (section(i).sh_type == type) return section(i);
    return std::nullopt;
  }

 private:
  std::span<const std::byte> m_file;
  Elf64_Ehdr m_header;
};

using Symbols = std::map<std::string_view, std::tuple<std::uint64_t, std::uint64_t, unsigned char>>;  // place, size, kind

// What a table shows to others: defined, not local, not hidden.
[[nodiscard]] Symbols exported_by(const CodeObject& object, const Elf64_Shdr& table) {
  Symbols found;
  const Elf64_Shdr names = object.section(table.sh_link);
  for (std::uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
    const auto symbol = object.read<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym));
    const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || visibility == STV_HIDDEN || visibility == STV_INTERNAL) continue;
    found.emplace(object.text(names, symbol.st_name), std::tuple(symbol.st_value, symbol.st_size, symbol.st_info));
  }
  return found;
}

}  // namespace

std::string damage_of_symbols_for_hip(std::span<const std::byte> file) {
  const CodeObject object(file);
  const auto all = object.only(SHT_SYMTAB), exported = object.only(SHT_DYNSYM);
  if (!exported) return "it exports nothing";
  if (object.name(*exported) != ".dynsym" || object.name(object.section(exported->sh_link)) != ".dynstr") return "a table of symbols by another name";
  if (!all) return {};
  if (object.name(*all) != ".symtab" || object.name(object.section(all->sh_link)) != ".strtab") return "a table of symbols by another name";
  if (exported_by(object, *all) != exported_by(object, *exported)) return "its two tables of symbols do not agree";
  return {};
}

}  // namespace kerncap::softgpu
