// Describes cubins to the collector as they are loaded, and finds them again when a kernel of theirs is launched.
#include "cuda/modules.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "capture/checksum.hpp"
#include "capture/send_list.hpp"
#include "capture/streams.hpp"
#include "cuda/api.hpp"
#include "cuda/cubin.hpp"
#include "cuda/streams.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

namespace messages = capture::messages;
using capture::Message;
using capture::send_list;

std::atomic<std::uint64_t> g_next_module{1};
std::atomic<std::uint32_t> g_next_kernel{1};

// By this thread, in one call.
struct Loaded {
  std::uint64_t module = 0;              // the last
  unsigned count = 0;
};
thread_local Loaded t_loaded;

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
  module.content = std::hash<std::string_view>{}({reinterpret_cast<const char*>(cubin.data()), cubin.size()});
  capture::Channel& channel = *tool()->channel;
  const bool with_checksum = (channel.flags() & capture::k_welcome_checksums) != 0;
  channel.send(messages::Module{
      .module = module.number, .device = device, .checksum = with_checksum ? capture::checksum(cubin) : 0});
  const auto count = static_cast<std::uint32_t>(symbols.kernels.size());
  const std::uint32_t first = g_next_kernel.fetch_add(count, std::memory_order_relaxed);
  const messages::Kernels head{.module = module.number};
  send_list(channel, head, symbols.kernels.size(), [&](Message& message, std::size_t i) {
    messages::Kernel{.kernel = first + static_cast<std::uint32_t>(i), .name = symbols.kernels[i]}.write(message);
  });
  std::vector<std::uint32_t> rules(count, k_no_rule);
  const capture::Selection selection = channel.select(module.number);
  for (const auto& match : selection.matches) {
    if (match.kernel - first >= count) continue;
    if (channel.mode() == capture::Mode::replace && !tool()->replacements.takes(module.number, match.rule, cubin)) continue;
    rules[match.kernel - first] = match.rule;
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
  t_loaded = {module.number, t_loaded.count + 1};
  const std::lock_guard lock(m_mutex);
  m_by_number[module.number] = std::move(module);
  for (const CubinEffects& each : symbols.effects) m_effects[std::string(each.kernel)] |= each.effects;
}

unsigned Modules::effects_of(std::string_view kernel) const noexcept {
  const std::lock_guard lock(m_mutex);
  const auto known = m_effects.find(kernel);
  return known == m_effects.end() ? 0 : known->second;
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
  {
    const std::lock_guard lock(m_mutex);
    std::erase_if(m_elsewhere, [module](const auto& item) { return item.second->module == module; });
  }
  tool()->functions.remove_module(module);
  tool()->replacements.module_gone(module);
  tool()->channel->send(messages::ModuleGone{.module = module});
}

void Modules::begin_call() noexcept { t_loaded = {}; }

bool Modules::has_loaded() noexcept { return t_loaded.count != 0; }

void Modules::end_call(CUmodule handle) noexcept {
  const Loaded loaded = std::exchange(t_loaded, {});
  if (loaded.count == 1) bind(loaded.module, handle);   // several: in as many contexts
}

void Modules::bind(std::uint64_t number, CUmodule handle) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_by_number.find(number);
  if (found != m_by_number.end() && found->second.handle == nullptr) found->second.handle = handle;
}

template <typename Holds>
std::vector<ModuleCandidate> Modules::candidates(CUmodule handle, Holds holds) const {
  std::vector<ModuleCandidate> found;
  const std::lock_guard lock(m_mutex);
  for (const auto& [number, module] : m_by_number) {
    const bool is_it = module.handle == handle;
    if ((!is_it && module.handle != nullptr) || !holds(module)) continue;
    if (is_it) found.clear();
    ModuleCandidate& made = found.emplace_back();
    made.number = number;
    if (is_it) break;
    made.context = module.context;
    made.content = module.content;
    for (const auto& [name, kernel] : module.kernels) made.kernels.push_back(name);
    made.variables = module.variables;
  }
  return found;
}

bool Modules::knows(CUmodule handle) const {
  const std::lock_guard lock(m_mutex);
  return std::any_of(m_by_number.begin(), m_by_number.end(), [handle](const auto& item) { return item.second.handle == handle; });
}

void Modules::variable_asked_for(CUmodule handle, const char* name) noexcept {
  if (handle == nullptr || name == nullptr || knows(handle)) return;
  std::vector<ModuleCandidate> found = candidates(handle, [name](const Module& module) {
    return std::any_of(module.variables.begin(), module.variables.end(), [name](const auto& each) { return each.name == name; });
  });
  std::erase_if(found, [handle](const ModuleCandidate& each) { return !has_all_variables(handle, each); });
  if (const ModuleMatch home = match_module(handle, std::move(found)); home.is_certain) bind(home.number, handle);
}

const Kernel* Modules::known_in(CUfunction function, CUcontext context) {
  const Kernel* first = tool()->functions.find(function);
  if (first != nullptr && first->is_of(context)) return first;
  const std::lock_guard lock(m_mutex);
  const auto known = m_elsewhere.find({function, context});
  if (known == m_elsewhere.end()) return nullptr;
  if (first == nullptr) tool()->functions.add(function, known->second);   // the context of its first launch has gone
  return known->second;
}

const Kernel* Modules::resolve(CUfunction function, const char* symbol, CUcontext context) noexcept {
  if (symbol == nullptr) return nullptr;
  const RelaxedMode relaxed;
  CUcontext current = nullptr;
  driver().cuCtxGetCurrent(&current);
  std::optional<Entered> entered;
  if (context != current) entered.emplace(context);
  if (entered && !*entered) context = current;   // a green context's, whose functions are those of the one that it is of
  if (const Kernel* known = known_in(function, context); known != nullptr) return known;
  begin_call();   // the questions may load the module
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
  end_call(handle);
  // Asked without the lock: the driver holds locks of its own when it tells us of modules.
  const ModuleMatch home = match_module(handle, candidates(handle, [symbol](const Module& module) {
    return module.kernels.contains(std::string_view(symbol));
  }));
  if (home.is_certain) bind(home.number, handle);
  const std::lock_guard lock(m_mutex);
  const auto found = m_by_number.find(home.number);
  if (found == m_by_number.end()) return nullptr;
  auto* kernel = new Kernel(*found->second.kernels.find(std::string_view(symbol))->second);
  kernel->function = plain;
  kernel->launched = function;
  kernel->handle = handle;
  kernel->context = context;
  kernel->is_certain = home.is_certain;
  // Also where the table is full.
  if (tool()->functions.find(function) != nullptr || !tool()->functions.add(function, kernel)) m_elsewhere[{function, context}] = kernel;
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
