// Reads the symbol table of a cubin (ELF64, machine EM_CUDA).
#include "cuda/cubin.hpp"

#include <elf.h>

#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kerncap::cuda {
namespace {

constexpr std::uint16_t k_machine_cuda = 190;
constexpr unsigned char k_other_entry = 0x10;   // STO_CUDA_ENTRY: a function that can be launched

class Elf {
 public:
  explicit Elf(std::span<const std::byte> file) noexcept : m_file(file) {}

  template <typename T>
  [[nodiscard]] std::optional<T> at(std::uint64_t offset) const noexcept {
    if (offset > m_file.size() || m_file.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, &m_file[offset], sizeof value);
    return value;
  }
  [[nodiscard]] std::string_view text(std::uint64_t table, std::uint64_t table_bytes, std::uint64_t offset) const noexcept {
    if (offset >= table_bytes || table > m_file.size() || m_file.size() - table < table_bytes) return {};
    const auto* begin = reinterpret_cast<const char*>(&m_file[table]) + offset;
    const std::size_t room = static_cast<std::size_t>(table_bytes - offset);
    return {begin, ::strnlen(begin, room)};
  }
  [[nodiscard]] std::optional<Elf64_Shdr> section(const Elf64_Ehdr& header, std::uint64_t index) const noexcept {
    if (index >= header.e_shnum) return std::nullopt;
    return at<Elf64_Shdr>(header.e_shoff + index * sizeof(Elf64_Shdr));
  }

 private:
  std::span<const std::byte> m_file;
};

// Of what the driver or CUDA's device runtime supplies.
unsigned effect_of(std::string_view function) noexcept {
  if (function == "vprintf") return k_prints;
  if (function == "malloc" || function == "free") return k_uses_heap;
  for (const std::string_view of_runtime : {"cudaLaunchDevice", "cudaGraph", "__cudaCDP", "__cuda_syscall_cnp"}) {
    if (function.starts_with(of_runtime)) return k_launches;
  }
  return 0;
}

// Symbols by their numbers in the table `table`: those of kernels, and the effects of others. Who calls which is in a section of its own.
std::vector<CubinEffects> effects_of_kernels(const Elf& elf, const Elf64_Ehdr& header, std::uint64_t table,
                                             const std::vector<std::pair<std::uint32_t, std::string_view>>& kernels,
                                             const std::map<std::uint32_t, unsigned>& sources) {
  constexpr std::uint32_t k_call_graph = 0x70000001;   // SHT_CUDA_CALLGRAPH: pairs of caller and callee
  if (kernels.empty() || sources.empty()) return {};
  std::multimap<std::uint32_t, std::uint32_t> callers;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto calls = elf.section(header, i);
    if (!calls || calls->sh_type != k_call_graph || calls->sh_link != table) continue;
    for (std::uint64_t at = 0; at + 8 <= calls->sh_size; at += 8) {
      const auto caller = elf.at<std::uint32_t>(calls->sh_offset + at);
      const auto callee = elf.at<std::uint32_t>(calls->sh_offset + at + 4);
      if (!caller || !callee) break;
      callers.emplace(*callee, *caller);
    }
  }
  std::map<std::uint32_t, unsigned> effects;
  std::vector<std::pair<std::uint32_t, unsigned>> waiting(sources.begin(), sources.end());
  while (!waiting.empty()) {
    const auto [symbol, effect] = waiting.back();
    waiting.pop_back();
    if ((effects[symbol] & effect) == effect) continue;
    effects[symbol] |= effect;
    const auto [first, last] = callers.equal_range(symbol);
    for (auto call = first; call != last; ++call) waiting.emplace_back(call->second, effect);
  }
  std::vector<CubinEffects> found;
  for (const auto& [symbol, name] : kernels) {
    if (const auto known = effects.find(symbol); known != effects.end()) found.push_back({name, known->second});
  }
  return found;
}

}  // namespace

CubinSymbols read_cubin(std::span<const std::byte> file) noexcept {
  CubinSymbols found;
  const Elf elf(file);
  const auto header = elf.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_machine != k_machine_cuda || header->e_shentsize != sizeof(Elf64_Shdr)) {
    return found;
  }
  const auto names = elf.section(*header, header->e_shstrndx);
  if (!names) return found;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto table = elf.section(*header, i);
    if (!table || table->sh_type != SHT_SYMTAB || table->sh_entsize != sizeof(Elf64_Sym)) continue;
    const auto strings = elf.section(*header, table->sh_link);
    if (!strings) continue;
    std::vector<std::pair<std::uint32_t, std::string_view>> kernels;
    std::map<std::uint32_t, unsigned> sources;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = elf.at<Elf64_Sym>(table->sh_offset + at);
      if (!symbol) break;
      const std::string_view name = elf.text(strings->sh_offset, strings->sh_size, symbol->st_name);
      // The driver supplies it.
      if (name == "malloc" && symbol->st_shndx == SHN_UNDEF) found.uses_heap = true;
      const auto number = static_cast<std::uint32_t>(at / sizeof(Elf64_Sym));
      if (const unsigned effect = effect_of(name); effect != 0) sources[number] = effect;
      if (name.empty() || symbol->st_shndx == SHN_UNDEF) continue;
      const unsigned type = ELF64_ST_TYPE(symbol->st_info);
      if (type == STT_FUNC && (symbol->st_other & k_other_entry) != 0) {
        found.kernels.push_back(name);
        kernels.emplace_back(number, name);
      }
      if (type != STT_OBJECT || symbol->st_size == 0) continue;
      const auto home = elf.section(*header, symbol->st_shndx);
      if (!home) continue;
      const std::string_view section = elf.text(names->sh_offset, names->sh_size, home->sh_name);
      const bool is_const = section == ".nv.constant3";
      if (is_const || section.starts_with(".nv.global")) found.variables.push_back({name, symbol->st_size, is_const});
    }
    const std::vector<CubinEffects> effects = effects_of_kernels(elf, *header, i, kernels, sources);
    found.effects.insert(found.effects.end(), effects.begin(), effects.end());
  }
  return found;
}

}  // namespace kerncap::cuda
