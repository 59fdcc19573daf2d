// Reads the symbol table of an AMDGPU ELF file. Every offset is checked: the file may be anything.
#include "hsa/driver/code_symbols.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace kerncap::hsa {
namespace {

template <typename T>
bool read(std::span<const std::byte> file, std::uint64_t at, T& out) {
  if (at > file.size() || file.size() - at < sizeof out) return false;
  std::memcpy(&out, &file[at], sizeof out);
  return true;
}

std::string_view text_at(std::span<const std::byte> file, std::uint64_t at) {
  if (at >= file.size()) return {};
  const auto* begin = reinterpret_cast<const char*>(&file[at]);
  return {begin, ::strnlen(begin, file.size() - at)};
}

std::string_view without_hash(std::string_view name) {
  for (const std::string_view mark : {".static.", ".intern.", "__static__", "__intern__"}) {
    if (const std::size_t at = name.rfind(mark); at != std::string_view::npos) return name.substr(0, at);
  }
  return name;
}

}  // namespace

std::optional<std::uint64_t> data_symbol(std::span<const std::byte> file, std::string_view name, std::uint64_t bytes) {
  Elf64_Ehdr header;
  if (!read(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  std::uint64_t begin = ~std::uint64_t{0};
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read(file, header.e_phoff + i * sizeof segment, segment)) return std::nullopt;
    if (segment.p_type == PT_LOAD) begin = std::min<std::uint64_t>(begin, segment.p_vaddr);
  }
  std::optional<std::uint64_t> found;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table;
    Elf64_Shdr names;
    if (!read(file, header.e_shoff + i * sizeof table, table)) return std::nullopt;
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header.e_shnum) continue;
    if (!read(file, header.e_shoff + table.sh_link * sizeof names, names)) return std::nullopt;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!read(file, table.sh_offset + at, symbol)) return std::nullopt;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size != bytes) continue;
      if (without_hash(text_at(file, names.sh_offset + symbol.st_name)) != without_hash(name)) continue;
      if (found) return std::nullopt;
      found = symbol.st_value - begin;
    }
  }
  return found;
}

}  // namespace kerncap::hsa
