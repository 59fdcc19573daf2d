#include "softgpu/device/code_object_check.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace kerncap::softgpu {
namespace {

constexpr Elf64_Half k_machine_amdgpu = 224;
constexpr unsigned k_type_kernel = 10;  // STT_AMDGPU_HSA_KERNEL, of old code objects

class File {
 public:
  explicit File(std::span<const std::byte> bytes) noexcept : m_bytes(bytes) {}

  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size_bytes) const noexcept {
    return offset <= m_bytes.size() && size_bytes <= m_bytes.size() - offset;
  }
  template <typename T>
  [[nodiscard]] std::optional<T> read(std::uint64_t offset) const noexcept {
    if (!holds(offset, sizeof(T))) return std::nullopt;
    T value;
    std::memcpy(&value, m_bytes.data() + offset, sizeof value);
    return value;
  }
  // Element `index` of a table; the caller knows that the table is in the file.
  template <typename T>
  [[nodiscard]] T at(std::uint64_t table, std::uint64_t index) const noexcept {
    T value;
    std::memcpy(&value, m_bytes.data() + table + index * sizeof(T), sizeof value);
    return value;
  }
  // A string that begins there and ends before `end`.
  [[nodiscard]] bool has_string(std::uint64_t begin, std::uint64_t end) const noexcept {
    return begin < end && std::memchr(m_bytes.data() + begin, 0, end - begin) != nullptr;
  }

 private:
  std::span<const std::byte> m_bytes;
};

[[nodiscard]] bool is_alignment(std::uint64_t value) noexcept {
  constexpr std::uint64_t k_largest = 1 << 21;
  return (value & (value - 1)) == 0 && value <= k_largest;
}

[[nodiscard]] bool has_content(const Elf64_Shdr& section) noexcept {
  return section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL;
}

[[nodiscard]] std::string damage_of_notes(const File& file, std::uint64_t offset, std::uint64_t size_bytes) {
  const std::uint64_t end = offset + size_bytes;
  while (end - offset >= sizeof(Elf64_Nhdr)) {
    const auto note = file.at<Elf64_Nhdr>(offset, 0);
    const std::uint64_t name = (std::uint64_t{note.n_namesz} + 3) / 4 * 4, text = (std::uint64_t{note.n_descsz} + 3) / 4 * 4;
    offset += sizeof note;
    if (name > end - offset || note.n_descsz > end - offset - name) return "a note reaches beyond its section";
    offset += std::min(end - offset, name + text);
  }
  return {};
}

// Whether a loaded segment takes [address, address + size) in memory. Nothing may also begin where it ends: a kernel without a body
// behind the last instruction.
[[nodiscard]] bool is_loaded(const File& file, const Elf64_Ehdr& header, std::uint64_t address, std::uint64_t size_bytes) noexcept {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = file.at<Elf64_Phdr>(header.e_phoff, i);
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const std::uint64_t offset = address - segment.p_vaddr;
    if (offset <= segment.p_memsz && size_bytes <= segment.p_memsz - offset) return true;
  }
  return false;
}

[[nodiscard]] std::string damage_of_segments(const File& file, const Elf64_Ehdr& header) {
  constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 40;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = file.at<Elf64_Phdr>(header.e_phoff, i);
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

[[nodiscard]] std::string damage_of_symbols(const File& file, const Elf64_Ehdr& header, const Elf64_Shdr& section) {
  if (section.sh_entsize != sizeof(Elf64_Sym) || section.sh_link >= header.e_shnum) return "a symbol table of another form";
  const auto names = file.at<Elf64_Shdr>(header.e_shoff, section.sh_link);
  if (names.sh_type != SHT_STRTAB) return "a symbol table without names";
  for (std::uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
    const auto symbol = file.at<Elf64_Sym>(section.sh_offset, i);
    if (symbol.st_shndx >= header.e_shnum && symbol.st_shndx < SHN_LORESERVE) return "a symbol of a section that is not there";
    if (symbol.st_name >= names.sh_size || !file.has_string(names.sh_offset + symbol.st_name, names.sh_offset + names.sh_size)) {
      return "a symbol whose name is not there";
    }
    // Only what the loader gives an address: labels may lie anywhere.
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    const bool is_defined = symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < SHN_LORESERVE;
    if (!is_defined || (type != STT_OBJECT && type != STT_FUNC && type != k_type_kernel)) continue;
    const auto home = file.at<Elf64_Shdr>(header.e_shoff, symbol.st_shndx);
    if ((home.sh_flags & SHF_ALLOC) == 0 || symbol.st_value < home.sh_addr || symbol.st_value - home.sh_addr > home.sh_size ||
        symbol.st_size > home.sh_size - (symbol.st_value - home.sh_addr) ||
        !is_loaded(file, header, symbol.st_value, symbol.st_size)) {
      return "a symbol that lies in no part of it";
    }
  }
  return {};
}

[[nodiscard]] std::string damage_of_sections(const File& file, const Elf64_Ehdr& header) {
  if (header.e_shnum == 0) return "it has no sections";
  if (header.e_shentsize != sizeof(Elf64_Shdr) || !file.holds(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr))) {
    return "its table of sections is not all there";
  }
  if (header.e_shstrndx >= header.e_shnum) return "its sections have no names";
  // First that all are in the file: they refer to each other.
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = file.at<Elf64_Shdr>(header.e_shoff, i);
    if (!file.holds(section.sh_offset, has_content(section) ? section.sh_size : 0)) return "a section is not all there";
    if (section.sh_type == SHT_NULL && i != 0) return "a section of no kind";
  }
  const auto names = file.at<Elf64_Shdr>(header.e_shoff, header.e_shstrndx);
  if (names.sh_type != SHT_STRTAB) return "its sections have no names";
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = file.at<Elf64_Shdr>(header.e_shoff, i);
    if (section.sh_name >= names.sh_size || !file.has_string(names.sh_offset + section.sh_name, names.sh_offset + names.sh_size)) {
      return "a section whose name is not there";
    }
    if (!is_alignment(section.sh_addralign)) return "a section with an impossible alignment";
    if ((section.sh_flags & SHF_ALLOC) != 0 && section.sh_size != 0 && !is_loaded(file, header, section.sh_addr, section.sh_size)) {
      return "a section that is not loaded";
    }
    std::string damage;
    if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM) damage = damage_of_symbols(file, header, section);
    if (section.sh_type == SHT_NOTE) damage = damage_of_notes(file, section.sh_offset, section.sh_size);
    if (!damage.empty()) return damage;
  }
  return {};
}

}  // namespace

bool is_amdgpu_elf(std::span<const std::byte> bytes) noexcept {
  const auto header = File(bytes).read<Elf64_Ehdr>(0);
  return header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
         header->e_machine == k_machine_amdgpu;
}

std::string damage_of_code_object(std::span<const std::byte> bytes) {
  const File file(bytes);
  if (bytes.size() < SELFMAG || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) return {};
  const auto header = file.read<Elf64_Ehdr>(0);
  if (!header) return "its header is not all there";
  if (!is_amdgpu_elf(bytes)) return {};
  if (header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_ident[EI_VERSION] != EV_CURRENT || header->e_version != EV_CURRENT ||
      header->e_ehsize != sizeof(Elf64_Ehdr)) {
    return "a header of another form";
  }
  if (header->e_type != ET_DYN) return "it is not linked";
  if (header->e_phentsize != sizeof(Elf64_Phdr) || !file.holds(header->e_phoff, std::uint64_t{header->e_phnum} * sizeof(Elf64_Phdr))) {
    return "its table of segments is not all there";
  }
  if (std::string damage = damage_of_segments(file, *header); !damage.empty()) return damage;
  return damage_of_sections(file, *header);
}

}  // namespace kerncap::softgpu
