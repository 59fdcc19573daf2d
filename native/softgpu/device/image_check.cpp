#include "softgpu/device/image_check.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/elf_file.hpp"
#include "softgpu/device/code_object_check.hpp"
#include "softgpu/device/decompression.hpp"
#include "softgpu/device/metadata_check.hpp"
#include "softgpu/device/symbol_check.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::string_view k_plain_magic = "__CLANG_OFFLOAD_BUNDLE__", k_compressed_magic = "CCOB";

[[nodiscard]] bool begins_with(ImageBytes& image, std::string_view magic) noexcept {
  return image.holds(0, magic.size()) && std::memcmp(image.bytes(0, magic.size()).data(), magic.data(), magic.size()) == 0;
}

// Nothing if its tables cannot be read.
[[nodiscard]] std::optional<std::uint64_t> elf_bytes(ImageBytes& image) noexcept {
  const auto header = image.read<Elf64_Ehdr>(0);
  if (!header) return std::nullopt;
  const std::uint64_t read_bytes = core::ElfFile::end_of_tables(*header);
  if (!image.holds(0, read_bytes)) return std::nullopt;
  const auto file = core::ElfFile::open(image.bytes(0, read_bytes));
  return file ? file->end_of_contents() : sizeof *header;  // else it is none of 64 bits, and its header is all that counts
}

// Each looks only at what the one before found whole.
[[nodiscard]] std::string damage_for_hip(std::span<const std::byte> file) {
  for (const auto check : {damage_of_code_object, damage_of_symbols_for_hip, damage_of_metadata}) {
    if (std::string damage = check(file); !damage.empty()) return damage;
  }
  return {};
}

[[nodiscard]] std::string damage_of_elf(ImageBytes& image) {
  const auto size_bytes = elf_bytes(image);
  if (!size_bytes) return "its tables are not all there";
  if (!image.holds(0, *size_bytes)) return "it is not all there";
  const std::span<const std::byte> file = image.bytes(0, *size_bytes);
  return is_amdgpu_elf(file) ? damage_for_hip(file) : "it is no code object for AMD GPUs";
}

[[nodiscard]] bool is_for_gpu(std::string_view name) noexcept { return name.find("amdgcn") != name.npos; }

// Whether HIP finds the entry for this target: its chip or family, built for features that it has. SPIR-V is compiled when it is loaded.
[[nodiscard]] bool runs_on(std::string_view entry, Target target) noexcept {
  if (!is_for_gpu(entry)) return false;
  if (entry.find("spirv") != entry.npos) return true;
  const std::string_view isa = entry.substr(std::min(entry.find("gfx"), entry.size()));
  const std::string_view chip = isa.substr(0, isa.find(':'));
  const std::string_view features = isa.substr(chip.size());
  const bool is_built_for_others = features.find(":xnack+") != features.npos || features.find(":sramecc-") != features.npos;
  return (chip == name(target) || (!chip.empty() && chip == traits(target).generic_name)) && !is_built_for_others;
}

[[nodiscard]] ImageVerdict damaged(std::string how) { return {.damage = std::move(how)}; }

[[nodiscard]] ImageVerdict judge_bundle(ImageBytes& image, Target target) {
  struct Entry {
    std::uint64_t offset, size_bytes, name_bytes;
  };
  constexpr std::uint64_t k_most_entries = 4096, k_most_name_bytes = 4096;
  const auto count = image.read<std::uint64_t>(k_plain_magic.size());
  if (!count || *count == 0 || *count > k_most_entries) return damaged("a bundle with an impossible number of entries");
  std::uint64_t at = k_plain_magic.size() + sizeof *count;
  ImageVerdict verdict{.is_for_target = false};
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto entry = image.read<Entry>(at);
    at += sizeof(Entry);
    if (!entry || entry->name_bytes > k_most_name_bytes || !image.holds(at, entry->name_bytes)) return damaged("the bundle's table is not all there");
    const std::string_view name(reinterpret_cast<const char*>(image.bytes(at, entry->name_bytes).data()), entry->name_bytes);
    at += entry->name_bytes;
    const bool matters = runs_on(name, target);
    if (matters ? !image.holds(entry->offset, entry->size_bytes) : !image.reaches(entry->offset, entry->size_bytes)) {
      return damaged("an entry of the bundle is not all there");
    }
    if (is_for_gpu(name)) (verdict.gpu_entries += verdict.gpu_entries.empty() ? "" : ", ") += name;
    verdict.is_for_target = verdict.is_for_target || matters;
    if (!matters || name.find("spirv") != name.npos) continue;
    ImageBytes object(image.bytes(entry->offset, entry->size_bytes));
    if (std::string damage = damage_of_elf(object); !damage.empty()) return damaged(std::string(name) + ": " + damage);
  }
  return verdict;
}

[[nodiscard]] ImageVerdict judge_compressed(ImageBytes& image, Target target) {
  struct Start {
    char magic[4];
    std::uint16_t version, method;
  };
  const auto start = image.read<Start>(0);
  if (!start || start->version == 0 || start->version > 3) return damaged("a compressed bundle of an unknown version");
  const std::uint64_t width = start->version == 3 ? 8 : 4;
  const auto number = [&](std::uint64_t index) -> std::optional<std::uint64_t> {
    const std::uint64_t at = sizeof(Start) + index * width;
    if (width == 8) return image.read<std::uint64_t>(at);
    return image.read<std::uint32_t>(at);
  };
  const bool has_size = start->version != 1;
  const auto plain_bytes = number(has_size ? 1 : 0);
  const std::uint64_t header_bytes = sizeof(Start) + (has_size ? 2 : 1) * width + sizeof(std::uint64_t);
  // Version 1 does not say; HIP reads as many bytes as there will be plain ones.
  const auto file_bytes = has_size || !image.size_bytes() ? number(0) : image.size_bytes();
  if (!plain_bytes || !file_bytes || *file_bytes <= header_bytes || !image.holds(0, *file_bytes)) return damaged("the compressed bundle is not all there");
  if (start->method > 1) return damaged("a bundle compressed in an unknown way");
  const auto method = start->method == 0 ? Compression::zlib : Compression::zstd;
  const Decompressed plain(method, image.bytes(header_bytes, *file_bytes - header_bytes), *plain_bytes);
  if (plain.is_impossible()) return {};  // no library for it here: then HIP's has to find out
  if (plain.bytes().empty()) return damaged("the compressed bundle is damaged");
  ImageBytes bundle(plain.bytes());
  if (!begins_with(bundle, k_plain_magic)) return damaged("what is compressed is no bundle");
  return judge_bundle(bundle, target);
}

}  // namespace

ImageVerdict judge_image(ImageBytes image, Target target) {
  if (begins_with(image, k_plain_magic)) return judge_bundle(image, target);
  if (begins_with(image, k_compressed_magic)) return judge_compressed(image, target);
  if (begins_with(image, {ELFMAG, SELFMAG})) return damaged(damage_of_elf(image));
  return damaged("neither a code object nor a bundle of them");
}

}  // namespace kerncap::softgpu
