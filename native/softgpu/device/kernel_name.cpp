#include "softgpu/device/kernel_name.hpp"

#include <cxxabi.h>
#include <elf.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "softgpu/device/gpu_memory.hpp"
#include "softgpu/device/memory_file.hpp"

namespace kerncap::softgpu {
namespace {

constexpr Elf64_Half k_machine_amdgpu = 224;
constexpr std::uint64_t k_search_pages = 1 << 16;  // 256 MiB down from the descriptor
constexpr std::uint64_t k_symbol_limit = 1 << 20;
constexpr std::string_view k_suffix = ".kd";

// Of an image as it was loaded, where things lie at their addresses and not where a file has them, as core::ElfFile wants it.
struct Tables {
  std::uint64_t symbols = 0, strings = 0, strings_bytes = 0;
};

// The load address of the image that the descriptor lies in.
[[nodiscard]] std::optional<std::uint64_t> find_image(GpuMemory& memory, std::uint64_t va) {
  std::uint64_t page = va / k_page_bytes * k_page_bytes;
  for (std::uint64_t i = 0; i < k_search_pages && page != 0; ++i, page -= k_page_bytes) {
    Elf64_Ehdr header;
    if (!memory.read(page, &header, sizeof header)) return std::nullopt;
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_machine == k_machine_amdgpu) return page;
  }
  return std::nullopt;
}

[[nodiscard]] std::optional<Tables> find_tables(GpuMemory& memory, std::uint64_t image) {
  Elf64_Ehdr header;
  if (!memory.read(image, &header, sizeof header)) return std::nullopt;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!memory.read(image + header.e_phoff + i * sizeof segment, &segment, sizeof segment)) return std::nullopt;
    if (segment.p_type != PT_DYNAMIC) continue;
    Tables tables;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_memsz; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      if (!memory.read(image + segment.p_vaddr + at, &entry, sizeof entry) || entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_SYMTAB) tables.symbols = image + entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRTAB) tables.strings = image + entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) tables.strings_bytes = entry.d_un.d_val;
    }
    if (tables.symbols != 0 && tables.strings > tables.symbols) return tables;
  }
  return std::nullopt;
}

[[nodiscard]] std::string text_at(GpuMemory& memory, std::uint64_t va, std::uint64_t limit) {
  std::string text;
  for (char c = 0; text.size() < limit && memory.read(va + text.size(), &c, 1) && c != '\0';) text.push_back(c);
  return text;
}

}  // namespace

std::string readable_name(const std::string& symbol) {
  int status = 0;
  char* readable = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && readable != nullptr ? readable : symbol;
  std::free(readable);
  return name;
}

std::string kernel_name(const AddressSpace& space, std::uint64_t descriptor_va) {
  return readable_name(kernel_symbol(space, descriptor_va));
}

std::string kernel_symbol(const AddressSpace& space, std::uint64_t descriptor_va) {
  GpuMemory memory(space);
  char address[64];
  std::snprintf(address, sizeof address, "kernel@0x%llx", static_cast<unsigned long long>(descriptor_va));
  const auto image = find_image(memory, descriptor_va);
  if (!image) return address;
  const auto tables = find_tables(memory, *image);
  if (!tables) return address;
  // Symbols end where another table begins at the latest; an entry that is none has a name out of range.
  for (std::uint64_t i = 0; i < k_symbol_limit; ++i) {
    Elf64_Sym symbol;
    if (!memory.read(tables->symbols + i * sizeof symbol, &symbol, sizeof symbol)) break;
    if (symbol.st_name >= tables->strings_bytes) break;
    if (*image + symbol.st_value != descriptor_va || symbol.st_name == 0) continue;
    std::string name = text_at(memory, tables->strings + symbol.st_name, tables->strings_bytes - symbol.st_name);
    if (name.size() <= k_suffix.size() || !name.ends_with(k_suffix)) continue;
    name.resize(name.size() - k_suffix.size());
    return name;
  }
  return address;
}

}  // namespace kerncap::softgpu
