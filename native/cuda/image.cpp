// Reads the first bytes of code images. Fatbins: the grammar is in kerncap_stages/code/fatbin.py.
#include "cuda/image.hpp"

#include <cstring>

#include "core/elf_file.hpp"

namespace kerncap::cuda {
namespace {

constexpr std::uint32_t k_fatbin = 0xBA55ED50;
constexpr std::uint32_t k_wrapper = 0x466243B1;   // version:u32, then the fatbin's address
constexpr std::uint16_t k_ptx_entry = 1;
constexpr std::uint16_t k_cubin_entry = 2;

struct FatbinHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t bytes;                            // of all entries
};

struct FatbinEntry {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t unused[3];
  std::uint32_t capability;
};

template <typename T>
T read(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// What an ELF file takes, which its tables say: no more is read than they. 0: more than `most`, or it is damaged.
std::size_t elf_bytes(const std::byte* begin, std::size_t most) noexcept {
  const auto file = core::ElfFile::open({begin, most});
  const std::uint64_t end = file ? file->end_of_contents().value_or(0) : 0;
  return end <= most ? static_cast<std::size_t>(end) : 0;
}

// PTX begins with a directive, a comment or white space; other forms that the driver takes are binary.
bool begins_text(std::byte first) noexcept {
  const auto letter = static_cast<unsigned char>(first);
  return letter == '.' || letter == '/' || letter == ' ' || (letter >= '\t' && letter <= '\r');
}

}  // namespace

Image look_at(const void* image, std::size_t most_bytes) noexcept {
  const auto* begin = static_cast<const std::byte*>(image);
  if (begin == nullptr) return {};
  Image found;
  std::size_t bytes = 0;
  if (begins_text(*begin)) {
    found.form = Image::Form::ptx;
    bytes = ::strnlen(reinterpret_cast<const char*>(begin), most_bytes + 1);
  } else if (std::memcmp(begin, ELFMAG, SELFMAG) == 0) {
    found.form = Image::Form::cubin;
    bytes = elf_bytes(begin, most_bytes);
  } else if (read<std::uint32_t>(begin) == k_wrapper) {
    const auto inner = read<std::uint64_t>(begin + 8);
    const auto* fatbin = reinterpret_cast<const std::byte*>(inner);
    if (fatbin == nullptr || read<std::uint32_t>(fatbin) != k_fatbin) return {};
    return look_at(fatbin, most_bytes);
  } else if (read<std::uint32_t>(begin) == k_fatbin) {
    const auto header = read<FatbinHeader>(begin);
    found.form = Image::Form::fatbin;
    bytes = header.bytes <= most_bytes ? header.header_bytes + static_cast<std::size_t>(header.bytes) : 0;
  }
  if (bytes == 0 || bytes > most_bytes) return {};
  found.bytes = {begin, bytes};
  return found;
}

bool is_compiled(const Image& image, unsigned capability) noexcept {
  if (image.form == Image::Form::ptx) return true;
  if (image.form != Image::Form::fatbin) return false;
  const std::byte* begin = image.bytes.data();
  const std::size_t size = image.bytes.size();
  bool has_ptx = false;
  std::size_t at = read<FatbinHeader>(begin).header_bytes;
  while (at <= size && size - at >= sizeof(FatbinEntry)) {
    const auto entry = read<FatbinEntry>(begin + at);
    if (entry.header_bytes == 0 || entry.bytes > size) break;
    has_ptx = has_ptx || entry.kind == k_ptx_entry;
    const bool same_family = entry.capability / 10 == capability / 10;
    if (entry.kind == k_cubin_entry && same_family && entry.capability <= capability) return false;
    at += entry.header_bytes + static_cast<std::size_t>(entry.bytes);
  }
  return has_ptx;
}

}  // namespace kerncap::cuda
