#include "softgpu/device/symbol_check.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "core/elf_file.hpp"

namespace kerncap::softgpu {
namespace {

using core::ElfFile;

[[nodiscard]] bool is_called(const ElfFile& file, const std::optional<Elf64_Shdr>& section, std::string_view name) noexcept {
  const auto names = file.section(file.header().e_shstrndx);
  return section && names && file.text(*names, section->sh_name) == name;
}

[[nodiscard]] std::optional<Elf64_Shdr> first_of(const ElfFile& file, std::uint32_t type) noexcept {
  for (const Elf64_Shdr& section : file.sections()) {
    if (section.sh_type == type) return section;
  }
  return std::nullopt;
}

using Symbols = std::map<std::string_view, std::tuple<std::uint64_t, std::uint64_t, unsigned char>>;  // place, size, kind

// What a table shows to others: defined, not local, not hidden.
[[nodiscard]] Symbols exported_by(const ElfFile& file, const Elf64_Shdr& table) {
  Symbols found;
  const auto names = file.section(table.sh_link);
  if (!names) return found;
  for (const Elf64_Sym& symbol : file.symbols(table)) {
    const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || visibility == STV_HIDDEN || visibility == STV_INTERNAL) continue;
    found.emplace(file.text(*names, symbol.st_name).value_or(""), std::tuple(symbol.st_value, symbol.st_size, symbol.st_info));
  }
  return found;
}

}  // namespace

std::string damage_of_symbols_for_hip(std::span<const std::byte> bytes) {
  const auto file = ElfFile::open(bytes);
  if (!file) return {};  // not what HIP takes for a code object
  const auto all = first_of(*file, SHT_SYMTAB), exported = first_of(*file, SHT_DYNSYM);
  if (!exported) return "it exports nothing";
  const auto are_called = [&](const Elf64_Shdr& table, std::string_view name, std::string_view names) {
    return is_called(*file, table, name) && is_called(*file, file->section(table.sh_link), names);
  };
  if (!are_called(*exported, ".dynsym", ".dynstr")) return "a table of symbols by another name";
  if (!all) return {};
  if (!are_called(*all, ".symtab", ".strtab")) return "a table of symbols by another name";
  if (exported_by(*file, *all) != exported_by(*file, *exported)) return "its two tables of symbols do not agree";
  return {};
}

}  // namespace kerncap::softgpu
