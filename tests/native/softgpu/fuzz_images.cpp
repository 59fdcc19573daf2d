// Hostile images: what a program hands to HIP, cut off and changed byte by byte. The checks read nothing beyond its end, whatever it
// says of itself, and none that was cut is taken for whole. Compiled with sanitizers.
//
// usage: fuzz_images [SEED [SECONDS]]; without SECONDS a fixed number of rounds.
#include <elf.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "softgpu/device/image_check.hpp"

namespace {

using namespace kerncap::softgpu;
using Bytes = std::vector<std::byte>;

void require(bool condition, const char* what, std::uint64_t detail = 0) {
  if (condition) return;
  std::fprintf(stderr, "fuzz_images: %s: %llu\n", what, static_cast<unsigned long long>(detail));
  std::abort();
}

void append(Bytes& out, const void* data, std::size_t size_bytes) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size_bytes);
}
template <typename T>
void append(Bytes& out, const T& value) { append(out, &value, sizeof value); }

// MessagePack, as the compiler writes it.
class Writer {
 public:
  Writer& map(unsigned count) { return byte(0x80 | count); }
  Writer& array(unsigned count) { return byte(0x90 | count); }
  Writer& number(unsigned value) { return value < 128 ? byte(value) : byte(0xCD).byte(value >> 8).byte(value & 0xFF); }
  Writer& text(std::string_view words) {
    words.size() < 32 ? byte(0xA0 | static_cast<unsigned>(words.size())) : byte(0xD9).byte(static_cast<unsigned>(words.size()));
    append(m_out, words.data(), words.size());
    return *this;
  }
  Writer& member(std::string_view name, unsigned value) { return text(name).number(value); }
  Writer& member(std::string_view name, std::string_view value) { return text(name).text(value); }
  [[nodiscard]] const Bytes& bytes() const { return m_out; }

 private:
  Writer& byte(unsigned value) {
    m_out.push_back(static_cast<std::byte>(value));
    return *this;
  }
  Bytes m_out;
};

Bytes metadata() {
  Writer writer;
  writer.map(3).text("amdhsa.kernels").array(1).map(12);
  writer.text(".args").array(2);
  writer.map(4).member(".address_space", "global").member(".offset", 0U).member(".size", 8U).member(".value_kind", "global_buffer");
  writer.map(3).member(".offset", 8U).member(".size", 4U).member(".value_kind", "by_value");
  writer.member(".name", "scale").member(".symbol", "scale.kd").member(".language", "OpenCL C");
  writer.member(".kernarg_segment_size", 272U).member(".kernarg_segment_align", 8U).member(".wavefront_size", 64U);
  writer.member(".group_segment_fixed_size", 0U).member(".private_segment_fixed_size", 0U).member(".max_flat_workgroup_size", 1024U);
  writer.member(".sgpr_count", 10U).member(".vgpr_count", 3U);
  writer.member("amdhsa.target", "amdgcn-amd-amdhsa--gfx90a").text("amdhsa.version").array(2).number(1).number(2);
  return writer.bytes();
}

// One kernel and its metadata, with both symbol tables. Beside it a symbol of `size_bytes` where what is loaded ends.
Bytes code_object(std::uint64_t size_bytes_at_end = 0) {
  constexpr std::uint64_t k_note_at = 0x200, k_symbols_at = 0x800, k_names_at = 0x900, k_data_at = 0xA00, k_data_bytes = 64, k_tables_at = 0xB00;
  constexpr std::string_view k_names("\0scale\0scale.kd\0", 16);
  constexpr std::string_view k_section_names("\0.note\0.dynsym\0.dynstr\0.rodata\0.symtab\0.strtab\0.shstrtab\0", 57);
  const auto name_at = [&](std::string_view name) { return static_cast<Elf64_Word>(k_section_names.find(name)); };
  const Bytes text = metadata();
  Bytes file(0x1000);
  const auto put = [&](std::uint64_t at, const void* data, std::size_t size_bytes) { std::memcpy(&file[at], data, size_bytes); };

  const Elf64_Nhdr note{7, static_cast<Elf64_Word>(text.size()), 32};
  const std::uint64_t note_bytes = sizeof note + 8 + (text.size() + 3) / 4 * 4;
  put(k_note_at, &note, sizeof note);
  put(k_note_at + sizeof note, "AMDGPU", 7);
  put(k_note_at + sizeof note + 8, text.data(), text.size());
  require(k_note_at + note_bytes <= k_symbols_at, "the note does not fit", note_bytes);

  Elf64_Sym symbols[3]{};
  symbols[1] = {static_cast<Elf64_Word>(k_names.find("scale.kd")), ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), STV_PROTECTED, 4, k_data_at, k_data_bytes};
  symbols[2] = {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), STV_PROTECTED, 4, k_data_at + k_data_bytes, size_bytes_at_end};
  put(k_symbols_at, symbols, sizeof symbols);
  put(k_names_at, k_names.data(), k_names.size());
  put(k_names_at + 64, k_section_names.data(), k_section_names.size());

  const Elf64_Phdr segments[2] = {{PT_LOAD, PF_R, 0, 0, 0, k_data_at + k_data_bytes, k_data_at + k_data_bytes, 4096},
                                  {PT_NOTE, PF_R, k_note_at, k_note_at, k_note_at, note_bytes, note_bytes, 4}};
  put(sizeof(Elf64_Ehdr), segments, sizeof segments);
  const Elf64_Shdr sections[8] = {
      {},
      {name_at(".note"), SHT_NOTE, SHF_ALLOC, k_note_at, k_note_at, note_bytes, 0, 0, 4, 0},
      {name_at(".dynsym"), SHT_DYNSYM, SHF_ALLOC, k_symbols_at, k_symbols_at, sizeof symbols, 3, 1, 8, sizeof(Elf64_Sym)},
      {name_at(".dynstr"), SHT_STRTAB, SHF_ALLOC, k_names_at, k_names_at, k_names.size(), 0, 0, 1, 0},
      {name_at(".rodata"), SHT_PROGBITS, SHF_ALLOC, k_data_at, k_data_at, k_data_bytes, 0, 0, 64, 0},
      {name_at(".symtab"), SHT_SYMTAB, 0, 0, k_symbols_at, sizeof symbols, 6, 1, 8, sizeof(Elf64_Sym)},
      {name_at(".strtab"), SHT_STRTAB, 0, 0, k_names_at, k_names.size(), 0, 0, 1, 0},
      {name_at(".shstrtab"), SHT_STRTAB, 0, 0, k_names_at + 64, k_section_names.size(), 0, 0, 1, 0}};
  put(k_tables_at, sections, sizeof sections);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = 224;
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof header;
  header.e_shoff = k_tables_at;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 8;
  header.e_shstrndx = 7;
  put(0, &header, sizeof header);
  file.resize(k_tables_at + sizeof sections);
  return file;
}

Bytes bundle_of(const Bytes& object) {
  constexpr std::string_view k_magic = "__CLANG_OFFLOAD_BUNDLE__", k_host = "host-x86_64-unknown-linux-gnu-", k_gpu = "hipv4-amdgcn-amd-amdhsa--gfx90a";
  Bytes bundle;
  append(bundle, k_magic.data(), k_magic.size());
  append(bundle, std::uint64_t{2});
  for (const auto& [name, size] : {std::pair(k_host, std::size_t{0}), std::pair(k_gpu, object.size())}) {
    for (const std::uint64_t value : {std::uint64_t{4096}, std::uint64_t{size}, std::uint64_t{name.size()}}) append(bundle, value);
    append(bundle, name.data(), name.size());
  }
  bundle.resize(4096);
  append(bundle, object.data(), object.size());
  return bundle;
}

// A frame of zstd with one block that is stored, not compressed.
Bytes compressed(const Bytes& bundle) {
  Bytes frame;
  append(frame, std::uint32_t{0xFD2FB528});
  frame.push_back(std::byte{0xA0});  // one segment, 4 bytes of content size
  append(frame, static_cast<std::uint32_t>(bundle.size()));
  const auto block = static_cast<std::uint32_t>(bundle.size()) << 3 | 1;
  append(frame, &block, 3);
  append(frame, bundle.data(), bundle.size());
  Bytes out;
  append(out, "CCOB", 4);
  for (const std::uint16_t value : {std::uint16_t{2}, std::uint16_t{1}}) append(out, value);
  append(out, static_cast<std::uint32_t>(24 + frame.size()));
  append(out, static_cast<std::uint32_t>(bundle.size()));
  append(out, std::uint64_t{0});
  append(out, frame.data(), frame.size());
  return out;
}

[[nodiscard]] bool is_whole(const Bytes& image) { return judge_image(ImageBytes(image), Target::gfx90a).damage.empty(); }

// The same at an address of which nothing is known, before a page that cannot be read.
[[nodiscard]] bool is_whole_in_memory(const Bytes& image, bool is_file) {
  const std::size_t pages = (image.size() + 4095) / 4096 * 4096;
  auto* memory = static_cast<std::byte*>(mmap(nullptr, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(memory + pages, 4096, PROT_NONE);
  std::byte* begin = memory + pages - image.size();
  if (!image.empty()) std::memcpy(begin, image.data(), image.size());
  const bool whole = judge_image(ImageBytes::unknown(begin, is_file), Target::gfx90a).damage.empty();
  munmap(memory, pages + 4096);
  return whole;
}

void fuzz(const Bytes& whole, std::mt19937& random) {
  require(is_whole(whole) && is_whole_in_memory(whole, false) && is_whole_in_memory(whole, true), "the whole image is refused", whole.size());
  for (int i = 0; i < 300; ++i) {
    const std::size_t size = random() % whole.size();
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    require(!is_whole(cut) && !is_whole_in_memory(cut, i % 2 == 0), "an image that was cut off is taken", size);
  }
  for (int i = 0; i < 2000; ++i) {
    Bytes damaged = whole;
    for (auto k = 1 + random() % 4; k != 0; --k) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random() % 3 == 0 ? 0xFF : random());
      if (random() % 2 == 0) damaged[random() % 200] ^= static_cast<std::byte>(1U << random() % 8);
    }
    static_cast<void>(is_whole(damaged));
    // Not as a file's: then a wild offset may lead to other memory of this process that can be read, which the sanitizer forbids.
    static_cast<void>(is_whole_in_memory(damaged, false));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto seed = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 1U;
  const auto time = std::chrono::seconds(argc > 2 ? std::strtol(argv[2], nullptr, 10) : 0);
  const auto begin = std::chrono::steady_clock::now();
  std::mt19937 random(seed);
  const Bytes object = code_object(), bundle = bundle_of(object);
  require(!is_whole(code_object(4)), "a symbol that reaches beyond what is loaded is taken");
  unsigned rounds = 0;
  do {
    fuzz(object, random);
    fuzz(bundle, random);
    fuzz(compressed(bundle), random);
    ++rounds;
  } while (std::chrono::steady_clock::now() - begin < time);
  std::printf("seed %u: %u rounds, nothing found\n", seed, rounds);
}
