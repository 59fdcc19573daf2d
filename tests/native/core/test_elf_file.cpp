// An ELF file is read whole, or not beyond its end, whatever its tables say.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../check.hpp"
#include "core/elf_file.hpp"

using kerncap::core::ElfFile;

namespace {

std::vector<std::byte> own_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<std::byte> bytes;
  for (auto at = std::istreambuf_iterator<char>(file); at != std::istreambuf_iterator<char>(); ++at) {
    bytes.push_back(static_cast<std::byte>(*at));
  }
  return bytes;
}

// Touches everything that can be read; returns how many symbols have a name.
std::size_t read_all(std::span<const std::byte> bytes) {
  const auto file = ElfFile::open(bytes);
  if (!file) return 0;
  std::size_t named = 0, segments = 0;
  for (const Elf64_Phdr& segment : file->segments()) segments += segment.p_type == PT_LOAD;
  for (const Elf64_Shdr& section : file->sections()) {
    const auto names = file->section(section.sh_link);
    if ((section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) || !names) continue;
    for (const Elf64_Sym& symbol : file->symbols(section)) named += !file->text(*names, symbol.st_name).value_or("").empty();
  }
  return segments == 0 ? 0 : named;
}

void a_whole_file_is_read(const std::vector<std::byte>& program) { CHECK(read_all(program) > 3); }

void a_cut_file_is_not_read_beyond_its_end(const std::vector<std::byte>& program) {
  CHECK(!ElfFile::open(std::span(program).first(sizeof(Elf64_Ehdr) - 1)));
  for (std::size_t size = sizeof(Elf64_Ehdr); size < program.size(); size += 97) {
    // A block of its own: a sanitizer sees a read behind it.
    (void)read_all(std::vector<std::byte>(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(size)));
  }
}

void tables_at_impossible_places_are_empty(std::vector<std::byte> program) {
  auto* const header = reinterpret_cast<Elf64_Ehdr*>(program.data());
  for (const std::uint64_t offset : {~std::uint64_t{0}, ~std::uint64_t{0} - 63, std::uint64_t{1} << 63, std::uint64_t{program.size()}}) {
    header->e_phoff = header->e_shoff = offset;
    const auto file = ElfFile::open(program);
    CHECK(file && file->segments().size() == 0 && file->sections().size() == 0 && !file->section(0));
    CHECK(!file->read<std::uint32_t>(offset) && file->part(offset, 16).empty());
  }
}

void contents_end_where_the_tables_say(std::vector<std::byte> program) {
  CHECK(ElfFile::open(program)->end_of_contents() == program.size());
  auto* const header = reinterpret_cast<Elf64_Ehdr*>(program.data());
  const auto tables = std::span(program).first(ElfFile::end_of_tables(*header));
  CHECK(ElfFile::open(tables)->end_of_contents() == program.size());
  CHECK(!ElfFile::open(tables.first(tables.size() - 1))->end_of_contents());

  auto* const segment = reinterpret_cast<Elf64_Phdr*>(program.data() + header->e_phoff);
  segment->p_filesz = std::uint64_t{1} << 40;
  CHECK(ElfFile::open(program)->end_of_contents() == segment->p_offset + (std::uint64_t{1} << 40));
  segment->p_offset = ~std::uint64_t{0} - 5;
  CHECK(ElfFile::open(program)->end_of_contents() == ~std::uint64_t{0});
  header->e_phoff = ~std::uint64_t{0} - 5;
  CHECK(ElfFile::end_of_tables(*header) == ~std::uint64_t{0} && !ElfFile::open(program)->end_of_contents());
}

void tables_of_another_form_are_empty(std::vector<std::byte> program) {
  auto* const header = reinterpret_cast<Elf64_Ehdr*>(program.data());
  header->e_phentsize = 32;
  const auto file = ElfFile::open(program);
  CHECK(file && file->segments().size() == 0 && file->sections().size() != 0);
  Elf64_Shdr symbols{};
  symbols.sh_size = ~std::uint64_t{0};
  symbols.sh_entsize = sizeof(Elf64_Sym);
  CHECK(file->symbols(symbols).size() == 0);
}

void a_string_ends_in_its_table() {
  std::vector<std::byte> bytes(sizeof(Elf64_Ehdr) + 8, static_cast<std::byte>('a'));
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes[sizeof header + 3] = std::byte{0};
  const auto file = ElfFile::open(bytes);
  Elf64_Shdr strings{};
  strings.sh_offset = sizeof header;
  strings.sh_size = 8;
  CHECK(file && file->text(strings, 1) == "aa" && file->text(strings, 3) == "");
  CHECK(!file->text(strings, 4) && !file->text(strings, 8) && !file->text(strings, ~std::uint64_t{0}));
  strings.sh_size = 9;
  CHECK(!file->text(strings, 0));
}

}  // namespace

int main() {
  const std::vector<std::byte> program = own_program();
  a_whole_file_is_read(program);
  a_cut_file_is_not_read_beyond_its_end(program);
  tables_at_impossible_places_are_empty(program);
  contents_end_where_the_tables_say(program);
  tables_of_another_form_are_empty(program);
  a_string_ends_in_its_table();
  return kerncap::test::exit_code();
}
