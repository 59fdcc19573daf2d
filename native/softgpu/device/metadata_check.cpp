#include "softgpu/device/metadata_check.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "core/elf_file.hpp"
#include "softgpu/device/msgpack.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::uint32_t k_type_metadata = 32;  // NT_AMDGPU_METADATA
constexpr std::string_view k_owner("AMDGPU", 7), k_descriptor_suffix = ".kd";

using Metadata = std::vector<std::span<const std::byte>>;

void add_metadata_of_notes(const core::ElfFile& file, std::uint64_t offset, std::uint64_t size_bytes, Metadata& out) {
  const std::uint64_t end = offset + size_bytes;
  while (end - offset >= sizeof(Elf64_Nhdr)) {
    const auto note = file.read<Elf64_Nhdr>(offset);
    if (!note) return;
    const std::uint64_t name = (std::uint64_t{note->n_namesz} + 3) / 4 * 4, text = (std::uint64_t{note->n_descsz} + 3) / 4 * 4;
    offset += sizeof *note;
    const std::span<const std::byte> owner = file.part(offset, note->n_namesz);
    const bool is_ours = std::string_view(reinterpret_cast<const char*>(owner.data()), owner.size()) == k_owner;
    if (note->n_type == k_type_metadata && is_ours) out.push_back(file.part(offset + name, note->n_descsz));
    offset += std::min(end - offset, name + text);
  }
}

// Where HIP's reader looks. A code object that was linked of several has one for each, and they count together.
[[nodiscard]] Metadata metadata_of(const core::ElfFile& file) {
  Metadata found;
  for (const Elf64_Phdr& segment : file.segments()) {
    if (segment.p_type != PT_NOTE || !file.holds(segment.p_offset, segment.p_filesz)) continue;
    add_metadata_of_notes(file, segment.p_offset, segment.p_filesz, found);
  }
  return found;
}

// Names of the kernel descriptors that can be found by name.
[[nodiscard]] std::set<std::string_view> descriptors_of(const core::ElfFile& file) {
  std::set<std::string_view> found;
  for (const Elf64_Shdr& section : file.sections()) {
    const auto names = file.section(section.sh_link);
    if (section.sh_type != SHT_DYNSYM || !names) continue;
    for (const Elf64_Sym& symbol : file.symbols(section)) {
      const std::string_view name = file.text(*names, symbol.st_name).value_or("");
      if (symbol.st_shndx != SHN_UNDEF && name.ends_with(k_descriptor_suffix)) found.insert(name);
    }
  }
  return found;
}

// The members of a map that are looked for. `names` and what `take` gets are in the same order.
template <std::size_t Count, typename Take>
[[nodiscard]] bool read_map(MsgpackReader& reader, const std::array<std::string_view, Count>& names, const Take& take) {
  const auto members = reader.map();
  if (!members) return false;
  std::set<std::string_view> seen;
  for (std::uint32_t i = 0; i < *members; ++i) {
    const auto name = reader.string();
    if (!name || !seen.insert(*name).second) return false;
    const auto known = std::find(names.begin(), names.end(), *name);
    if (known == names.end() ? !reader.skip() : !take(static_cast<std::size_t>(known - names.begin()))) return false;
  }
  return true;
}

struct Argument {
  std::optional<std::uint64_t> offset, size_bytes;
  std::optional<std::string_view> kind;
};

[[nodiscard]] std::optional<Argument> read_argument(MsgpackReader& reader) {
  static constexpr std::array<std::string_view, 3> k_names = {".offset", ".size", ".value_kind"};
  Argument argument;
  const bool whole = read_map(reader, k_names, [&](std::size_t member) {
    if (member == 2) return (argument.kind = reader.string()).has_value();
    return ((member == 0 ? argument.offset : argument.size_bytes) = reader.whole_number()).has_value();
  });
  if (!whole || !argument.offset || !argument.size_bytes || !argument.kind) return std::nullopt;
  return argument;
}

[[nodiscard]] bool has_text(std::optional<std::string_view> text) noexcept { return text && !text->empty() && text->find('\0') == text->npos; }

// Empty, or what is wrong with one kernel; its descriptor's name is added to `described`.
[[nodiscard]] std::string read_kernel(MsgpackReader& reader, std::set<std::string_view>& described) {
  static constexpr std::array<std::string_view, 11> k_names = {
      ".name", ".symbol", ".args", ".kernarg_segment_size", ".kernarg_segment_align", ".group_segment_fixed_size",
      ".private_segment_fixed_size", ".wavefront_size", ".sgpr_count", ".vgpr_count", ".max_flat_workgroup_size"};
  constexpr std::size_t k_first_number = 3;
  std::array<std::optional<std::uint64_t>, k_names.size()> numbers;
  std::optional<std::string_view> name, symbol;
  std::vector<Argument> arguments;
  const bool readable = read_map(reader, k_names, [&](std::size_t member) {
    if (member == 0) return has_text(name = reader.string());
    if (member == 1) return has_text(symbol = reader.string());
    if (member >= k_first_number) return (numbers[member] = reader.whole_number()).has_value();
    const auto count = reader.array();
    for (std::uint32_t i = 0; count && i < *count; ++i) {
      const auto argument = read_argument(reader);
      if (!argument) return false;
      arguments.push_back(*argument);
    }
    return count.has_value();
  });
  if (!readable || !name || !symbol) return "the metadata of a kernel cannot be read";
  const std::string who = "the metadata of " + std::string(*name);
  // HIP finds a kernel by one and its descriptor by the other.
  if (*symbol != std::string(*name) + std::string(k_descriptor_suffix)) return who + " name another descriptor";
  if (!std::all_of(numbers.begin() + k_first_number, numbers.end(), [](const auto& number) { return number.has_value(); })) {
    return who + " lack what is required";
  }
  constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 20;  // far above what hardware passes
  const std::uint64_t segment_bytes = *numbers[3], alignment = *numbers[4], wave_lanes = *numbers[7];
  if (segment_bytes > k_most_bytes || alignment > k_most_bytes || (alignment & (alignment - 1)) != 0) return who + " ask for impossible arguments";
  if (wave_lanes != 32 && wave_lanes != 64) return who + " ask for impossible waves";
  for (const Argument& argument : arguments) {
    if (*argument.offset > segment_bytes || *argument.size_bytes > segment_bytes - *argument.offset) return who + " have an argument beyond its segment";
  }
  if (!described.insert(*symbol).second) return who + " describe a kernel again";
  return {};
}

// Empty, or what is wrong with one note's worth.
[[nodiscard]] std::string read_metadata(MsgpackReader reader, std::set<std::string_view>& described) {
  static constexpr std::array<std::string_view, 2> k_names = {"amdhsa.version", "amdhsa.kernels"};
  std::string damage;
  std::array<bool, k_names.size()> has{};
  const bool readable = read_map(reader, k_names, [&](std::size_t member) {
    const auto count = reader.array();
    has[member] = count.has_value();
    if (!count) return false;
    if (member == 0) return *count == 2 && reader.whole_number() && reader.whole_number();
    for (std::uint32_t i = 0; i < *count && damage.empty(); ++i) damage = read_kernel(reader, described);
    return damage.empty();
  });
  if (damage.empty() && (!readable || !has[0] || !has[1])) return "its metadata cannot be read";
  return damage;
}

}  // namespace

std::string damage_of_metadata(std::span<const std::byte> bytes) {
  const auto file = core::ElfFile::open(bytes);
  const Metadata notes = file ? metadata_of(*file) : Metadata{};
  if (notes.empty()) return "it has no metadata";
  std::set<std::string_view> described;
  for (const auto& note : notes) {
    if (std::string damage = read_metadata(MsgpackReader(note), described); !damage.empty()) return damage;
  }
  if (described != descriptors_of(*file)) return "its metadata and its kernel descriptors do not agree";
  return {};
}

}  // namespace kerncap::softgpu
