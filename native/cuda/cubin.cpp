// Reads the symbol table of a cubin (ELF64, machine EM_CUDA).
#include "cuda/cubin.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "core/elf_file.hpp"

namespace kerncap::cuda {
namespace {

constexpr std::uint16_t k_machine_cuda = 190;
constexpr unsigned char k_other_entry = 0x10;   // STO_CUDA_ENTRY: a function that can be launched

// Of what the driver or CUDA's device runtime supplies.
unsigned effect_of(std::string_view function) noexcept {
  if (function == "vprintf") return k_prints;
  if (function == "malloc" || function == "free") return k_uses_heap;
  for (const std::string_view of_runtime : {"cudaLaunchDevice", "cudaGraph", "__cudaCDP", "__cuda_syscall_cnp"}) {
    if (function.starts_with(of_runtime)) return k_launches;
  }
  return 0;
}

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Symbols by their numbers in the table `table`: those of kernels, and the effects of others. Who calls which is in a section of its own.
std::vector<CubinEffects> effects_of_kernels(const core::ElfFile& elf, std::uint64_t table,
                                             const std::vector<std::pair<std::uint32_t, std::string_view>>& kernels,
                                             const std::map<std::uint32_t, unsigned>& sources) {
  constexpr std::uint32_t k_call_graph = 0x70000001;   // SHT_CUDA_CALLGRAPH: pairs of caller and callee
  if (kernels.empty() || sources.empty()) return {};
  std::multimap<std::uint32_t, std::uint32_t> callers;
  for (const Elf64_Shdr& calls : elf.sections()) {
    if (calls.sh_type != k_call_graph || calls.sh_link != table) continue;
    for (std::uint64_t at = 0; at + 8 <= calls.sh_size; at += 8) {
      const auto caller = elf.read<std::uint32_t>(calls.sh_offset + at);
      const auto callee = elf.read<std::uint32_t>(calls.sh_offset + at + 4);
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

CubinSymbols read_cubin(std::span<const std::byte> bytes) noexcept {
  CubinSymbols found;
  const auto elf = core::ElfFile::open(bytes);
  if (!elf || elf->header().e_machine != k_machine_cuda) return found;
  const core::ElfTable<Elf64_Shdr> sections = elf->sections();
  const auto names = elf->section(elf->header().e_shstrndx);
  if (!names) return found;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Elf64_Shdr table = sections[i];
    const auto strings = elf->section(table.sh_link);
    if (table.sh_type != SHT_SYMTAB || !strings) continue;
    std::vector<std::pair<std::uint32_t, std::string_view>> kernels;
    std::map<std::uint32_t, unsigned> sources;
    std::uint32_t number = 0;
    for (const Elf64_Sym& symbol : elf->symbols(table)) {
      const std::uint32_t index = number++;
      const std::string_view name = elf->text(*strings, symbol.st_name).value_or("");
      // The driver supplies it.
      if (name == "malloc" && symbol.st_shndx == SHN_UNDEF) found.uses_heap = true;
      if (const unsigned effect = effect_of(name); effect != 0) sources[index] = effect;
      if (name.empty() || symbol.st_shndx == SHN_UNDEF) continue;
      const unsigned type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FUNC && (symbol.st_other & k_other_entry) != 0) {
        found.kernels.push_back(name);
        kernels.emplace_back(index, name);
      }
      if (type != STT_OBJECT || symbol.st_size == 0) continue;
      const auto home = elf->section(symbol.st_shndx);
      if (!home) continue;
      const std::string_view section = elf->text(*names, home->sh_name).value_or("");
      const bool is_const = section == ".nv.constant3";
      if (is_const || section.starts_with(".nv.global")) found.variables.push_back({name, symbol.st_size, is_const});
    }
    const std::vector<CubinEffects> effects = effects_of_kernels(*elf, i, kernels, sources);
    found.effects.insert(found.effects.end(), effects.begin(), effects.end());
  }
  return found;
}

// An instruction has 16 bytes from sm_70 on, and its lowest nine bits tell what it does.
bool has_open_stack(std::span<const std::byte> bytes) noexcept {
  constexpr std::uint64_t k_bytes = 16;
  constexpr std::uint32_t k_mask = 0x1FF;
  constexpr std::uint32_t k_store_local = 0x187;
  constexpr std::uint32_t k_calls[] = {0x143, 0x144};    // by absolute and by relative addresses
  const auto elf = core::ElfFile::open(bytes);
  if (!elf) return text_of(bytes).find("call") != std::string_view::npos;
  bool calls = false;
  bool stores = false;
  for (const Elf64_Shdr& section : elf->sections()) {
    if ((section.sh_flags & SHF_EXECINSTR) == 0) continue;
    for (std::uint64_t at = 0; at + k_bytes <= section.sh_size && !(calls && stores); at += k_bytes) {
      const auto word = elf->read<std::uint32_t>(section.sh_offset + at);
      if (!word) break;
      stores |= (*word & k_mask) == k_store_local;
      calls |= std::ranges::find(k_calls, *word & k_mask) != std::end(k_calls);
    }
  }
  return calls && stores;
}

bool may_launch(std::span<const std::byte> bytes) noexcept {
  constexpr std::string_view k_names[] = {"cudaGetParameterBuffer", "cudaLaunchDevice", "cudaGraphLaunch", "__cudaCDP",
                                          "__cuda_syscall_cnp"};
  return std::ranges::any_of(k_names, [bytes](std::string_view name) { return text_of(bytes).find(name) != std::string_view::npos; });
}

}  // namespace kerncap::cuda
