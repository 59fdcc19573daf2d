// Describes loaded code objects to the collector. Runs in hsa_executable_freeze, on the program's thread.
#include "hsa/modules.hpp"

#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "capture/checksum.hpp"
#include "capture/send_list.hpp"
#include "capture/streams.hpp"
#include "core/elf_file.hpp"
#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

namespace messages = capture::messages;
using capture::Message;
using capture::send_list;

// ROCm's OpenCL loads it into each program: it submits what kernels have enqueued.
constexpr std::string_view k_scheduler = "__amd_rocclr_scheduler.kd";

std::atomic<std::uint64_t> g_next_module{1};
std::atomic<std::uint32_t> g_next_kernel{1};

template <typename T>
T loaded_info(hsa_loaded_code_object_t loaded, hsa_ven_amd_loader_loaded_code_object_info_t attribute) noexcept {
  T value{};
  api().loader.hsa_ven_amd_loader_loaded_code_object_get_info(loaded, attribute, &value);
  return value;
}

template <typename T>
T symbol_info(hsa_executable_symbol_t symbol, hsa_executable_symbol_info_t attribute) noexcept {
  T value{};
  api().core.hsa_executable_symbol_get_info_fn(symbol, attribute, &value);
  return value;
}

std::string symbol_name(hsa_executable_symbol_t symbol) {
  std::string name(symbol_info<std::uint32_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH), '\0');
  api().core.hsa_executable_symbol_get_info_fn(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME, name.data());
  return name;
}

struct Loaded {
  std::uint64_t module;
  std::uint32_t device;
  std::uint64_t base;
  std::uint64_t bytes;
  std::int64_t delta;                       // loaded address - address in the file
  std::span<const std::byte> file;
  std::string uri;
};

struct Symbols {
  const Loaded* loaded;
  std::vector<hsa_executable_symbol_t> kernels;
  std::vector<hsa_executable_symbol_t> variables;
};

hsa_status_t sort_symbol(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t symbol, void* out) {
  auto& symbols = *static_cast<Symbols*>(out);
  const auto type = symbol_info<hsa_symbol_kind_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE);
  const bool is_kernel = type == HSA_SYMBOL_KIND_KERNEL;
  if (!is_kernel && type != HSA_SYMBOL_KIND_VARIABLE) return HSA_STATUS_SUCCESS;
  // An executable may hold several code objects; the address tells whose symbol it is.
  const auto address = symbol_info<std::uint64_t>(
      symbol, is_kernel ? HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT : HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS);
  if (address < symbols.loaded->base || address >= symbols.loaded->base + symbols.loaded->bytes) {
    return HSA_STATUS_SUCCESS;
  }
  (is_kernel ? symbols.kernels : symbols.variables).push_back(symbol);
  return HSA_STATUS_SUCCESS;
}

std::vector<Elf64_Phdr> load_segments(const Loaded& loaded) {
  std::vector<Elf64_Phdr> found;
  const auto file = core::ElfFile::open(loaded.file);
  if (!file) return found;
  for (const Elf64_Phdr& segment : file->segments()) {
    if (segment.p_type == PT_LOAD) found.push_back(segment);
  }
  return found;
}

// Whether the variable at `address` lies where the code object allows no stores. ROCr's own answer is the opposite: it
// calls constant what may be written.
bool is_const(const Loaded& loaded, const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  const std::uint64_t in_file = address - static_cast<std::uint64_t>(loaded.delta);
  for (const Elf64_Phdr& segment : segments) {
    if (in_file >= segment.p_vaddr && in_file - segment.p_vaddr < segment.p_memsz) return (segment.p_flags & PF_W) == 0;
  }
  return false;
}

void send_variables(const Loaded& loaded, const std::vector<hsa_executable_symbol_t>& variables) {
  const std::vector<Elf64_Phdr> segments = load_segments(loaded);
  const messages::Variables head{.module = loaded.module};
  send_list(*tool()->channel, head, variables.size(), [&](Message& message, std::size_t i) {
    const hsa_executable_symbol_t symbol = variables[i];
    const std::string name = symbol_name(symbol);
    messages::Variable variable{.name = name};
    variable.address = symbol_info<std::uint64_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS);
    variable.size_bytes = symbol_info<std::uint32_t>(symbol, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE);
    if (is_const(loaded, segments, variable.address)) variable.flags |= capture::k_variable_is_const;
    variable.write(message);
  });
}

// What the file holds of a kernel's descriptor, which is loaded at `address`.
std::optional<KernelDescriptor> descriptor_in_file(const Loaded& loaded, std::uint64_t address) {
  const auto file = core::ElfFile::open(loaded.file);
  if (!file) return std::nullopt;
  const std::uint64_t in_file = address - static_cast<std::uint64_t>(loaded.delta);
  for (const Elf64_Phdr& segment : load_segments(loaded)) {
    if (in_file < segment.p_vaddr || in_file - segment.p_vaddr >= segment.p_filesz) continue;
    const std::uint64_t into = in_file - segment.p_vaddr;
    if (segment.p_filesz - into < sizeof(KernelDescriptor) || !file->holds(segment.p_offset, segment.p_filesz)) continue;
    return file->read<KernelDescriptor>(segment.p_offset + into);
  }
  return std::nullopt;
}

// The parts of a loaded code object that hold data: kernels reach them by pointers, ours and other modules'.
void add_data_segments(const Loaded& loaded) {
  constexpr std::uint64_t page = 4096;
  for (const Elf64_Phdr& segment : load_segments(loaded)) {
    if ((segment.p_flags & PF_X) != 0 || segment.p_memsz == 0) continue;
    const auto address = static_cast<std::uint64_t>(static_cast<std::int64_t>(segment.p_vaddr) + loaded.delta);
    capture::Allocation region;
    region.base = address & ~(page - 1);
    region.bytes = ((address + segment.p_memsz + page - 1) & ~(page - 1)) - region.base;
    region.kind = capture::MemoryKind::code_object;
    region.device = loaded.device;
    region.access = std::uint64_t{1} << loaded.device;
    region.module = loaded.module;
    tool()->memory.allocations.add(region);
  }
}

Loaded describe(hsa_loaded_code_object_t handle, std::uint32_t device) {
  Loaded loaded{};
  loaded.module = g_next_module.fetch_add(1, std::memory_order_relaxed);
  loaded.device = device;
  loaded.base = loaded_info<std::uint64_t>(handle, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE);
  loaded.bytes = loaded_info<std::uint64_t>(handle, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE);
  loaded.delta = loaded_info<std::int64_t>(handle, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_DELTA);
  const auto storage = loaded_info<std::uint64_t>(
      handle, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_MEMORY_BASE);
  const auto size = loaded_info<std::uint64_t>(
      handle, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_MEMORY_SIZE);
  loaded.file = {reinterpret_cast<const std::byte*>(storage), storage == 0 ? 0 : size};
  loaded.uri.resize(loaded_info<std::uint32_t>(handle, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI_LENGTH));
  api().loader.hsa_ven_amd_loader_loaded_code_object_get_info(
      handle, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI, loaded.uri.data());
  return loaded;
}

}  // namespace

void Modules::add(hsa_executable_t executable) noexcept {
  std::vector<hsa_loaded_code_object_t> all;
  api().loader.hsa_ven_amd_loader_executable_iterate_loaded_code_objects(
      executable,
      [](hsa_executable_t, hsa_loaded_code_object_t loaded, void* out) {
        static_cast<std::vector<hsa_loaded_code_object_t>*>(out)->push_back(loaded);
        return HSA_STATUS_SUCCESS;
      },
      &all);
  for (const hsa_loaded_code_object_t loaded : all) add_one(executable, loaded);
}

void Modules::add_one(hsa_executable_t executable, hsa_loaded_code_object_t handle) noexcept {
  const auto agent = loaded_info<hsa_agent_t>(handle, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_AGENT);
  const std::uint32_t device = tool()->agents.index_of(agent);
  if (device >= 64) return;
  const Loaded loaded = describe(handle, device);
  Symbols symbols{&loaded, {}, {}};
  api().core.hsa_executable_iterate_agent_symbols_fn(executable, agent, sort_symbol, &symbols);
  const bool with_checksums =
      tool()->profiling() || (tool()->channel->flags() & capture::k_welcome_checksums) != 0;
  tool()->channel->send(messages::Module{.module = loaded.module,
                                         .device = device,
                                         .load_address = loaded.base,
                                         .load_bytes = loaded.bytes,
                                         .uri = loaded.uri,
                                         .checksum = with_checksums ? capture::checksum(loaded.file) : 0});
  const std::uint32_t first_kernel =
      g_next_kernel.fetch_add(static_cast<std::uint32_t>(symbols.kernels.size()), std::memory_order_relaxed);
  const messages::Kernels head{.module = loaded.module};
  send_list(*tool()->channel, head, symbols.kernels.size(), [&](Message& message, std::size_t i) {
    const std::string name = symbol_name(symbols.kernels[i]);
    messages::Kernel{.kernel = first_kernel + static_cast<std::uint32_t>(i), .name = name}.write(message);
  });
  std::vector<std::uint32_t> rules(symbols.kernels.size(), k_no_rule);
  if (tool()->profiling()) {
    tool()->channel->send(messages::ModuleEnd{.module = loaded.module});
  } else {
    if (!tool()->replacing()) add_data_segments(loaded);
    const capture::Selection selection = tool()->channel->select(loaded.module);
    for (const auto& match : selection.matches) {
      const std::uint32_t i = match.kernel - first_kernel;
      if (i < rules.size()) rules[i] = match.rule;
    }
    if (selection.want_code) {
      send_variables(loaded, symbols.variables);
      const auto sent = capture::send_stream(*tool()->channel, capture::StreamKind::code,
                                             capture::k_no_capture, loaded.module, loaded.file);
      if (!sent) tool()->snapshots.warn("a code object could not be sent: its kernels cannot be captured");
      tool()->snapshots.prepare();
    }
  }
  for (std::size_t i = 0; i < symbols.kernels.size(); ++i) {
    Kernel kernel;
    kernel.id = first_kernel + static_cast<std::uint32_t>(i);
    kernel.rule = rules[i];
    kernel.device = device;
    kernel.enqueues = symbol_name(symbols.kernels[i]) == k_scheduler;
    kernel.module = loaded.module;
    kernel.kernarg_bytes = symbol_info<std::uint32_t>(
        symbols.kernels[i], HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE);
    const auto object =
        symbol_info<std::uint64_t>(symbols.kernels[i], HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT);
    if (kernel.rule != k_no_rule && tool()->replacing()) {
      kernel.variant = tool()->replacements.load(loaded.module, loaded.file, loaded.delta, agent,
                                                    symbols.kernels[i], kernel.rule);
    } else if (kernel.rule != k_no_rule) {
      kernel.descriptor = keep(descriptor_in_file(loaded, object));
    }
    tool()->kernels.add(object, kernel);
    if (kernel.enqueues) tool()->queues.expect_kernels_that_enqueue();
  }
  const std::lock_guard lock(m_mutex);
  m_by_executable[executable.handle].push_back(loaded.module);
}

const KernelDescriptor* Modules::keep(const std::optional<KernelDescriptor>& descriptor) {
  if (!descriptor) return nullptr;
  const std::lock_guard lock(m_mutex);
  return &m_descriptors.emplace_back(*descriptor);
}

void Modules::remove(hsa_executable_t executable) noexcept {
  std::vector<std::uint64_t> gone;
  {
    const std::lock_guard lock(m_mutex);
    const auto found = m_by_executable.find(executable.handle);
    if (found == m_by_executable.end()) return;
    gone = std::move(found->second);
    m_by_executable.erase(found);
  }
  for (const std::uint64_t module : gone) {
    tool()->kernels.remove_module(module);
    tool()->memory.allocations.remove_module(module);
    tool()->replacements.remove_module(module);
    tool()->channel->send(messages::ModuleGone{.module = module});
  }
}

}  // namespace kerncap::hsa

namespace kerncap::hsa::hooks {

hsa_status_t hsa_executable_freeze(hsa_executable_t executable, const char* options) {
  const hsa_status_t status = api().core.hsa_executable_freeze_fn(executable, options);
  if (status == HSA_STATUS_SUCCESS && enabled()) tool()->modules.add(executable);
  return status;
}

hsa_status_t hsa_executable_destroy(hsa_executable_t executable) {
  capture::Session::Call call;
  if (enabled()) {
    (void)tool()->snapshots.session().wait_until_idle();
    tool()->modules.remove(executable);
    call = tool()->snapshots.session().wait_until_idle();   // a capture that began in between has its memory in its list
  }
  return api().core.hsa_executable_destroy_fn(executable);
}

}  // namespace kerncap::hsa::hooks
