// Describes cubins to the collector as they are loaded, and finds them again when a kernel of theirs is launched.
#include "cuda/modules.hpp"

#include <algorithm>
#include <atomic>

#include "capture/send_list.hpp"
#include "capture/streams.hpp"
#include "cuda/api.hpp"
#include "cuda/cubin.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using capture::Message;
using capture::send_list;
using capture::Up;

std::atomic<std::uint64_t> g_next_module{1};
std::atomic<std::uint32_t> g_next_kernel{1};
thread_local std::uint64_t t_last_loaded = 0;

}  // namespace

void Modules::loaded(CUcontext context, std::uint32_t cupti_id, std::span<const std::byte> cubin) noexcept {
  std::uint32_t device = 0;
  if (cupti().cuptiGetDeviceId(context, &device) != CUPTI_SUCCESS) device = 0;
  const CubinSymbols symbols = read_cubin(cubin);
  if (symbols.uses_heap) m_uses_heap.store(true);
  Module module;
  module.number = g_next_module.fetch_add(1, std::memory_order_relaxed);
  module.cupti_id = cupti_id;
  module.context = context;
  module.device = device;
  capture::Channel& channel = *tool()->channel;
  channel.send(Message(Up::module).u64(module.number).u32(device).u64(cubin.size()).u64(0).u64(0).text(""));
  const auto count = static_cast<std::uint32_t>(symbols.kernels.size());
  const std::uint32_t first = g_next_kernel.fetch_add(count, std::memory_order_relaxed);
  send_list(*tool()->channel, Up::kernels, module.number, symbols.kernels, [&](Message& message, std::size_t i) {
    message.u32(first + static_cast<std::uint32_t>(i)).text(symbols.kernels[i]);
  });
  std::vector<std::uint32_t> rules(count, k_no_rule);
  const capture::Selection selection = channel.select(module.number);
  for (const auto& match : selection.matches) {
    if (match.kernel - first < count) rules[match.kernel - first] = match.rule;
  }
  if (selection.want_code) {
    const auto sent =
        capture::send_stream(channel, capture::StreamKind::code, capture::k_no_capture, module.number, cubin);
    if (!sent) warn("a cubin could not be sent: its kernels cannot be captured");
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    auto* kernel = new Kernel;
    kernel->id = first + i;
    kernel->rule = rules[i];
    kernel->module = module.number;
    module.kernels[std::string(symbols.kernels[i])] = kernel;
  }
  for (const CubinVariable& variable : symbols.variables) {
    module.variables.push_back({std::string(variable.name), variable.bytes, variable.is_const});
  }
  t_last_loaded = module.number;
  const std::lock_guard lock(m_mutex);
  m_by_number[module.number] = std::move(module);
}

void Modules::unloaded(std::uint32_t cupti_id) noexcept {
  std::uint64_t gone = 0;
  {
    const std::lock_guard lock(m_mutex);
    for (auto it = m_by_number.begin(); it != m_by_number.end(); ++it) {
      if (it->second.cupti_id != cupti_id) continue;
      gone = it->first;
      m_by_number.erase(it);
      break;
    }
  }
  if (gone != 0) tell_gone(gone);
}

void Modules::forget(CUcontext context) noexcept {
  std::vector<std::uint64_t> gone;
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& [number, module] : m_by_number) {
      if (module.context == context) gone.push_back(number);
    }
    for (const std::uint64_t number : gone) m_by_number.erase(number);
  }
  for (const std::uint64_t number : gone) tell_gone(number);
}

void Modules::tell_gone(std::uint64_t module) noexcept {
  tool()->functions.remove_module(module);
  tool()->channel->send(Message(Up::module_gone).u64(module));
}

void Modules::name_last(CUmodule handle) noexcept {
  const std::lock_guard lock(m_mutex);
  const auto found = m_by_number.find(t_last_loaded);
  if (found != m_by_number.end() && found->second.handle == nullptr) found->second.handle = handle;
  t_last_loaded = 0;
}

// Which cubin the handle is: the latest without a handle that has all the variables that the driver finds in the module.
void Modules::variable_asked_for(CUmodule handle, const char* name) noexcept {
  if (handle == nullptr || name == nullptr) return;
  std::vector<std::pair<std::uint64_t, std::vector<ModuleVariable>>> nameless;
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& [number, module] : m_by_number) {
      if (module.handle == handle) return;
      if (module.handle == nullptr) nameless.emplace_back(number, module.variables);
    }
  }
  // Asked without the lock: the driver holds locks of its own when it tells us of modules.
  const auto is_there = [handle](const ModuleVariable& variable) {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    return driver().cuModuleGetGlobal_v2(&address, &bytes, handle, variable.name.c_str()) == CUDA_SUCCESS &&
           bytes == variable.bytes;
  };
  for (auto it = nameless.rbegin(); it != nameless.rend(); ++it) {
    const auto& [number, variables] = *it;
    const bool has_it = std::any_of(variables.begin(), variables.end(), [name](const auto& each) { return each.name == name; });
    if (!has_it || !std::all_of(variables.begin(), variables.end(), is_there)) continue;
    const std::lock_guard lock(m_mutex);
    const auto found = m_by_number.find(number);
    if (found != m_by_number.end() && found->second.handle == nullptr) found->second.handle = handle;
    return;
  }
}

const Kernel* Modules::resolve(CUfunction function, const char* symbol) noexcept {
  if (symbol == nullptr) return nullptr;
  const RelaxedMode relaxed;   // the question may load the module
  CUfunction plain = function;
  CUmodule handle = nullptr;
  // A launch may name a CUkernel: that has a function in each context.
  if (driver().cuFuncGetModule(&handle, plain) != CUDA_SUCCESS) {
    handle = nullptr;
    if (driver().cuKernelGetFunction == nullptr ||
        driver().cuKernelGetFunction(&plain, reinterpret_cast<CUkernel>(function)) != CUDA_SUCCESS ||
        driver().cuFuncGetModule(&handle, plain) != CUDA_SUCCESS) {
      return nullptr;
    }
  }
  const std::lock_guard lock(m_mutex);
  Module* home = nullptr;
  for (auto& [number, module] : m_by_number) {
    if (module.handle == handle && module.kernels.contains(std::string_view(symbol))) home = &module;
  }
  // Modules of a library are loaded by and by, and their handle is seen at the first launch: the latest that has
  // the symbol and no handle yet is the one, as a lazily loaded module is loaded by the launch itself.
  for (auto it = m_by_number.rbegin(); home == nullptr && it != m_by_number.rend(); ++it) {
    Module& module = it->second;
    if (module.handle == nullptr && module.kernels.contains(std::string_view(symbol))) home = &module;
  }
  if (home == nullptr) return nullptr;
  home->handle = handle;
  auto* kernel = new Kernel(*home->kernels.find(std::string_view(symbol))->second);
  kernel->function = plain;
  kernel->launched = function;
  kernel->handle = handle;
  tool()->functions.add(function, kernel);
  return kernel;
}

std::vector<Modules::Variables> Modules::variables(std::uint32_t device) const {
  std::vector<Variables> found;
  const std::lock_guard lock(m_mutex);
  for (const auto& [number, module] : m_by_number) {
    if (module.device != device || module.handle == nullptr || module.variables.empty()) continue;
    found.push_back({number, module.handle, device, module.variables});
  }
  return found;
}

}  // namespace kerncap::cuda
