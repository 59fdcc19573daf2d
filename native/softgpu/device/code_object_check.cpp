#include "softgpu/device/code_object_check.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "core/elf_file.hpp"

namespace kerncap::softgpu {
namespace {

using core::ElfFile;

constexpr Elf64_Half k_machine_amdgpu = 224;
constexpr unsigned k_type_kernel = 10;  // STT_AMDGPU_HSA_KERNEL, of old code objects

[[nodiscard]] bool is_alignment(std::uint64_t value) noexcept {
  constexpr std::uint64_t k_largest = 1 << 21;
  return (value & (value - 1)) == 0 && value <= k_largest;
}

[[nodiscard]] bool has_content(const Elf64_Shdr& section) noexcept {
  return section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL;
}

[[nodiscard]] std::string damage_of_notes(const ElfFile& file, std::uint64_t offset, std::uint64_t size_bytes) {
  const std::uint64_t end = offset + size_bytes;
  while (end - offset >= sizeof(Elf64_Nhdr)) {
    const auto note = file.read<Elf64_Nhdr>(offset);
    if (!note) return "a note is not all there";
    const std::uint64_t name = (std::uint64_t{note->n_namesz} + 3) / 4 * 4, text = (std::uint64_t{note->n_descsz} + 3) / 4 * 4;
    offset += sizeof *note;
    if (name > end - offset || note->n_descsz > end - offset - name) return "a note reaches beyond its section";
    offset += std::min(end - offset, name + text);
  }
  return {};
}

// Whether a loaded segment takes [address, address + size) in memory. Nothing may also begin where it ends: a kernel without a body
// behind the last instruction.
[[nodiscard]] bool is_loaded(const ElfFile& file, std::uint64_t address, std::uint64_t size_bytes) noexcept {
  for (const Elf64_Phdr& segment : file.segments()) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const std::uint64_t offset = address - segment.p_vaddr;
    if (offset <= segment.p_memsz && size_bytes <= segment.p_memsz - offset) return true;
  }
  return false;
}

[[nodiscard]] std::string damage_of_segments(const ElfFile& file) {
  constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 40;
  for (const Elf64_Phdr& segment : file.segments()) {
    if (!file.holds(segment.p_offset, segment.p_filesz)) return "a segment is not all there";
    if (segment.p_type == PT_LOAD) {
      if (segment.p_filesz > segment.p_memsz) return "a segment is larger in the file than in memory";
      if (segment.p_vaddr > k_most_bytes || segment.p_memsz > k_most_bytes) return "a segment at an impossible address";
      if (!is_alignment(segment.p_align)) return "a segment with an impossible alignment";
    }
    if (segment.p_type != PT_NOTE) continue;
    if (std::string damage = damage_of_notes(file, segment.p_offset, segment.p_filesz); !damage.empty()) return damage;
  }
  return {};
}

[[nodiscard]] std::string damage_of_symbols(const ElfFile& file, const Elf64_Shdr& section) {
  if (section.sh_entsize != sizeof(Elf64_Sym) || section.sh_link >= file.sections().size()) return "a symbol table of another form";
  const core::ElfTable<Elf64_Shdr> sections = file.sections();
  const Elf64_Shdr names = sections[section.sh_link];
  if (names.sh_type != SHT_STRTAB) return "a symbol table without names";
  for (const Elf64_Sym& symbol : file.symbols(section)) {
    if (symbol.st_shndx >= sections.size() && symbol.st_shndx < SHN_LORESERVE) return "a symbol of a section that is not there";
    if (!file.text(names, symbol.st_name)) return "a symbol whose name is not there";
    // Only what the loader gives an address: labels may lie anywhere.
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    const bool is_defined = symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < SHN_LORESERVE;
    if (!is_defined || (type != STT_OBJECT && type != STT_FUNC && type != k_type_kernel)) continue;
    const Elf64_Shdr home = sections[symbol.st_shndx];
    if ((home.sh_flags & SHF_ALLOC) == 0 || symbol.st_value < home.sh_addr || symbol.st_value - home.sh_addr > home.sh_size ||
        symbol.st_size > home.sh_size - (symbol.st_value - home.sh_addr) ||
        !is_loaded(file, symbol.st_value, symbol.st_size)) {
      return "a symbol that lies in no part of it";
    }
  }
  return {};
}

[[nodiscard]] std::string damage_of_sections(const ElfFile& file) {
  const Elf64_Ehdr& header = file.header();
  if (header.e_shnum == 0) return "it has no sections";
  const core::ElfTable<Elf64_Shdr> sections = file.sections();
  if (sections.size() != header.e_shnum) return "its table of sections is not all there";
  if (header.e_shstrndx >= sections.size()) return "its sections have no names";
  // First that all are in the file: they refer to each other.
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Elf64_Shdr section = sections[i];
    if (!file.holds(section.sh_offset, has_content(section) ? section.sh_size : 0)) return "a section is not all there";
    if (section.sh_type == SHT_NULL && i != 0) return "a section of no kind";
  }
  const Elf64_Shdr names = sections[header.e_shstrndx];
  if (names.sh_type != SHT_STRTAB) return "its sections have no names";
  for (const Elf64_Shdr& section : sections) {
    if (!file.text(names, section.sh_name)) return "a section whose name is not there";
    if (!is_alignment(section.sh_addralign)) return "a section with an impossible alignment";
    if ((section.sh_flags & SHF_ALLOC) != 0 && section.sh_size != 0 && !is_loaded(file, section.sh_addr, section.sh_size)) {
      return "a section that is not loaded";
    }
    std::string damage;
    if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM) damage = damage_of_symbols(file, section);
    if (section.sh_type == SHT_NOTE) damage = damage_of_notes(file, section.sh_offset, section.sh_size);
    if (!damage.empty()) return damage;
  }
  return {};
}

}  // namespace

bool is_amdgpu_elf(std::span<const std::byte> bytes) noexcept {
  const auto file = ElfFile::open(bytes);
  return file && file->header().e_machine == k_machine_amdgpu;
}

std::string damage_of_code_object(std::span<const std::byte> bytes) {
  if (bytes.size() < SELFMAG || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) return {};
  if (bytes.size() < sizeof(Elf64_Ehdr)) return "its header is not all there";
  const auto file = ElfFile::open(bytes);
  if (!file || !is_amdgpu_elf(bytes)) return {};
  const Elf64_Ehdr& header = file->header();
  if (header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_ident[EI_VERSION] != EV_CURRENT || header.e_version != EV_CURRENT ||
      header.e_ehsize != sizeof(Elf64_Ehdr)) {
    return "a header of another form";
  }
  if (header.e_type != ET_DYN) return "it is not linked";
  if (header.e_phentsize != sizeof(Elf64_Phdr) || file->segments().size() != header.e_phnum) {
    return "its table of segments is not all there";
  }
  if (std::string damage = damage_of_segments(*file); !damage.empty()) return damage;
  return damage_of_sections(*file);
}

}  // namespace kerncap::softgpu
