// Reads the symbol table of an AMDGPU ELF file. The file may be anything.
#include "hsa/driver/code_symbols.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "core/elf_file.hpp"

namespace kerncap::hsa {
namespace {

std::string_view without_hash(std::string_view name) {
  for (const std::string_view mark : {".static.", ".intern.", "__static__", "__intern__"}) {
    if (const std::size_t at = name.rfind(mark); at != std::string_view::npos) return name.substr(0, at);
  }
  return name;
}

std::uint64_t first_loaded(const core::ElfFile& file) {
  std::uint64_t begin = ~std::uint64_t{0};
  for (const Elf64_Phdr& segment : file.segments()) {
    if (segment.p_type == PT_LOAD) begin = std::min<std::uint64_t>(begin, segment.p_vaddr);
  }
  return begin;
}

}  // namespace

std::optional<std::uint64_t> data_symbol(std::span<const std::byte> bytes_of_file, std::string_view name, std::uint64_t bytes) {
  const auto file = core::ElfFile::open(bytes_of_file);
  if (!file) return std::nullopt;
  const std::uint64_t begin = first_loaded(*file);
  std::optional<std::uint64_t> found;
  for (const Elf64_Shdr& table : file->sections()) {
    const auto names = file->section(table.sh_link);
    if (table.sh_type != SHT_SYMTAB || !names) continue;
    for (const Elf64_Sym& symbol : file->symbols(table)) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size != bytes) continue;
      if (without_hash(file->text(*names, symbol.st_name).value_or("")) != without_hash(name)) continue;
      if (found) return std::nullopt;
      found = symbol.st_value - begin;
    }
  }
  return found;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> writable_data(std::span<const std::byte> bytes_of_file) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
  const auto file = core::ElfFile::open(bytes_of_file);
  if (!file) return parts;
  for (const Elf64_Phdr& segment : file->segments()) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0 || segment.p_memsz == 0) continue;
    parts.emplace_back(segment.p_vaddr - first_loaded(*file), segment.p_memsz);
  }
  return parts;
}

}  // namespace kerncap::hsa
