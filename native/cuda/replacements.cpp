// Loads variants, on the program's thread, within its first launch of a kernel.
#include "cuda/replacements.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

namespace messages = capture::messages;
using capture::ReplaceOutcome;
using core::Error;
using core::ErrorCode;
using core::Result;

// What a program may set of a function, and can be asked for.
constexpr CUfunction_attribute k_carried[] = {
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
    CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
};

int attribute_of(CUfunction function, CUfunction_attribute attribute) noexcept {
  int value = 0;
  return driver().cuFuncGetAttribute(&value, attribute, function) == CUDA_SUCCESS ? value : 0;
}

std::uint32_t positive(int value) noexcept { return static_cast<std::uint32_t>(std::max(value, 0)); }

void read_cluster(CUfunction function, std::uint32_t (&cluster)[3]) noexcept {
  cluster[0] = positive(attribute_of(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH));
  cluster[1] = positive(attribute_of(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT));
  cluster[2] = positive(attribute_of(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH));
}

// Other code may have other parameters under the same name.
bool have_the_same_parameters(CUfunction one, CUfunction other) noexcept {
  if (driver().cuFuncGetParamInfo == nullptr) return true;   // the collector has compared those of the captured code
  for (std::size_t i = 0;; ++i) {
    std::size_t offset[2] = {};
    std::size_t bytes[2] = {};
    const CUresult first = driver().cuFuncGetParamInfo(one, i, &offset[0], &bytes[0]);
    const CUresult second = driver().cuFuncGetParamInfo(other, i, &offset[1], &bytes[1]);
    if (first != second || offset[0] != offset[1] || bytes[0] != bytes[1]) return false;
    if (first != CUDA_SUCCESS) return true;
  }
}

Result<CUdeviceptr> address_in(CUmodule module, const std::string& name, std::uint64_t bytes) {
  CUdeviceptr address = 0;
  std::size_t found = 0;
  const CUresult status = driver().cuModuleGetGlobal_v2(&address, &found, module, name.c_str());
  if (status != CUDA_SUCCESS) return Error{ErrorCode::not_found, describe("the program's variable " + name, status)};
  if (found != bytes) return Error{ErrorCode::unsupported, "the program's variable " + name + " has another size"};
  return address;
}

// While it lives, what this thread loads is no module of the program's.
class LoadsOwn {
 public:
  LoadsOwn() noexcept { this_thread().loads_own_module = true; }
  ~LoadsOwn() { this_thread().loads_own_module = false; }
  LoadsOwn(const LoadsOwn&) = delete;
  LoadsOwn& operator=(const LoadsOwn&) = delete;
};

// In the context of a variant, whichever is current.
template <typename Function>
Result<void> in_context(CUcontext context, Function function) {
  CUcontext current = nullptr;
  driver().cuCtxGetCurrent(&current);
  if (context == current) return function();
  const Entered entered(context);
  return function();   // where it cannot be entered, the driver says so
}

// The program's variables that a variant's code uses, in the order of `how`; none of constants.
Result<std::vector<CUdeviceptr>> find_variables(CUmodule module, const capture::Replacement& how) {
  std::vector<CUdeviceptr> addresses;
  for (const capture::ProgramVariable& variable : how.variables) {
    if (variable.is_const) continue;
    const Result<CUdeviceptr> address = address_in(module, variable.name, variable.bytes);
    if (!address) return address.error();
    addresses.push_back(address.value());
  }
  return addresses;
}

// Code that computed addresses of the variant's own variables has those of the program's then.
Result<void> connect(std::span<std::byte> code, const capture::Replacement& how, std::span<const CUdeviceptr> addresses) {
  std::size_t next = 0;
  for (const capture::ProgramVariable& variable : how.variables) {
    if (variable.is_const) continue;
    const CUdeviceptr address = addresses[next++];
    for (const messages::AddressWord& word : variable.words) {
      const std::uint64_t value = address + word.addend;
      const auto half = static_cast<std::uint32_t>(word.part == capture::WordPart::high ? value >> 32 : value);
      const bool is_whole = word.part == capture::WordPart::whole;
      const std::size_t bytes = is_whole ? sizeof value : sizeof half;
      if (word.place > code.size() || code.size() - word.place < bytes) {
        return Error{ErrorCode::damaged, "a place of the program's variables is not in the variant's file"};
      }
      std::memcpy(&code[word.place], is_whole ? static_cast<const void*>(&value) : &half, bytes);
    }
  }
  return {};
}

Result<std::vector<Variant::Copy>> find_constants(const Kernel& kernel, const Variant& variant) {
  std::vector<Variant::Copy> copies;
  for (const capture::ProgramVariable& variable : variant.how->variables) {
    if (!variable.is_const) continue;
    const Result<CUdeviceptr> from = address_in(kernel.handle, variable.name, variable.bytes);
    if (!from) return from.error();
    const Result<CUdeviceptr> to = address_in(variant.module, variable.variant_name, variable.bytes);
    if (!to) return to.error();
    copies.push_back({to.value(), from.value(), variable.bytes});
  }
  return copies;
}

}  // namespace

capture::Shape shape_of(const LaunchCall& launch) noexcept {
  capture::Shape shape{};
  for (int axis = 0; axis < 3; ++axis) {
    shape.block[axis] = launch.block[axis];
    shape.grid_work_items[axis] = std::uint64_t{launch.grid_blocks[axis]} * launch.block[axis];
  }
  return shape;
}

std::optional<VariantLaunch> fit(const Variant& variant, const LaunchCall& asked) noexcept {
  if (asked.is_of_cuda_3) return std::nullopt;
  const capture::Shape shape = shape_of(asked);
  if (!capture::has_shape(tool()->channel->rules()[variant.rule], shape)) return std::nullopt;
  const capture::Shape launch = variant.how->launch(shape);
  if (!variant.how->allows(launch)) return std::nullopt;
  VariantLaunch made{};
  std::uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) {
    made.grid_blocks[axis] = launch.blocks(axis);
    made.block[axis] = launch.block[axis];
    threads *= launch.block[axis];
    const std::uint32_t cluster = asked.cluster[0] != 0 ? asked.cluster[axis] : variant.cluster[axis];
    if (cluster != 0 && made.grid_blocks[axis] % cluster != 0) return std::nullopt;
  }
  if (variant.max_threads != 0 && threads > variant.max_threads) return std::nullopt;
  const bool has_own = variant.how->dynamic_group_bytes != capture::k_no_bytes;
  made.dynamic_shared_bytes = has_own ? variant.how->dynamic_group_bytes : asked.dynamic_shared_bytes;
  if (made.dynamic_shared_bytes > variant.most_dynamic.load(std::memory_order_relaxed)) return std::nullopt;
  if (!asked.cooperative) return made;
  // All blocks have to run at once.
  int blocks = 0;
  CUdevice device = 0;
  const CUresult told = driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, variant.function, static_cast<int>(threads),
                                                                            made.dynamic_shared_bytes);
  if (told != CUDA_SUCCESS || driver().cuCtxGetDevice(&device) != CUDA_SUCCESS) return std::nullopt;
  const std::uint32_t processors = positive(device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  const auto most = std::uint64_t{positive(blocks)} * processors;
  const auto wanted = std::uint64_t{made.grid_blocks[0]} * made.grid_blocks[1] * made.grid_blocks[2];
  return wanted <= most ? std::optional(made) : std::nullopt;
}

CUresult copy_constants(const Variant& variant, CUstream stream) noexcept {
  CUresult status = CUDA_SUCCESS;
  if (variant.constants.empty()) return status;
  (void)in_context(variant.context, [&]() -> Result<void> {
    for (const Variant::Copy& copy : variant.constants) {
      status = driver().cuMemcpyDtoDAsync_v2(copy.to, copy.from, copy.bytes, stream);
      if (status != CUDA_SUCCESS) break;
    }
    return {};
  });
  return status;
}

bool Replacements::takes(std::uint64_t module, std::uint32_t rule, std::span<const std::byte> cubin) noexcept {
  const auto tell = [&](ReplaceOutcome outcome, const std::string& reason) {
    tool()->channel->send(messages::Replaced{.module = module, .rule = rule, .outcome = outcome, .reason = reason});
    return outcome == ReplaceOutcome::replaced;
  };
  const capture::Replacement* const how = tool()->channel->replacement(rule);
  if (how == nullptr) return tell(ReplaceOutcome::failed, "the collector did not say what replaces it");
  if (how->captured.empty()) return tell(ReplaceOutcome::replaced, {});
  const Result<bool> is_captured = m_files.holds(how->captured, cubin);
  if (!is_captured) return tell(ReplaceOutcome::failed, is_captured.error().message);
  return tell(is_captured.value() ? ReplaceOutcome::replaced : ReplaceOutcome::other_code, {});
}

void Replacements::fail(std::uint32_t rule, std::uint64_t module, const std::string& reason) noexcept {
  tool()->channel->send(
      messages::Replaced{.module = module, .rule = rule, .outcome = ReplaceOutcome::failed, .reason = reason});
}

void Replacements::doubt(const Kernel& kernel) noexcept {
  {
    const std::lock_guard lock(m_mutex);
    if (!m_doubted.emplace(kernel.module, kernel.rule).second) return;
  }
  fail(kernel.rule, kernel.module,
       "several modules that differ have a kernel of this name, and the driver does not tell which of them was launched");
}

Variant* Replacements::of(const Kernel& kernel) noexcept {
  if (!kernel.is_certain) return doubt(kernel), nullptr;
  const std::pair key{kernel.module, kernel.rule};
  const auto find = [&]() -> std::optional<Variant*> {
    const std::lock_guard lock(m_mutex);
    const auto known = m_variants.find(key);
    return known == m_variants.end() ? std::nullopt : std::optional(known->second);
  };
  std::optional<Variant*> found = find();
  if (!found) {
    const std::lock_guard loading(m_loading);
    found = find();
    if (!found) {
      const RelaxedMode relaxed;
      Result<Variant*> loaded(nullptr);
      (void)in_context(kernel.context, [&]() -> Result<void> { return loaded = load(kernel), Result<void>(); });
      if (!loaded) fail(kernel.rule, kernel.module, loaded.error().message);
      const std::lock_guard lock(m_mutex);
      found = m_variants[key] = loaded ? loaded.value() : nullptr;
    }
  }
  if (*found != nullptr) carry_settings(**found);
  return *found;
}

// In the kernel's context.
Result<Variant*> Replacements::load(const Kernel& kernel) {
  const capture::Replacement* const how = tool()->channel->replacement(kernel.rule);
  if (how == nullptr) return Error{ErrorCode::not_found, "the collector did not say what replaces it"};
  Result<std::vector<CUdeviceptr>> variables = find_variables(kernel.handle, *how);
  if (!variables) return variables.error();
  Variant* variant = take_idle(kernel, variables.value());
  std::unique_ptr<Variant> made;
  if (variant == nullptr) {
    made = std::make_unique<Variant>();
    variant = made.get();
    variant->how = how;
    variant->rule = kernel.rule;
    variant->context = kernel.context;
    variant->variables = std::move(variables.value());
  }
  Result<void> loaded = made == nullptr ? Result<void>() : load_code(kernel, *variant);
  Result<std::vector<Variant::Copy>> constants(std::vector<Variant::Copy>{});
  if (loaded) constants = find_constants(kernel, *variant);
  if (!loaded || !constants) {
    if (made == nullptr) {
      const std::lock_guard lock(m_mutex);
      m_idle.push_back(variant);
    } else if (variant->module != nullptr) {
      driver().cuModuleUnload(variant->module);
    }
    return loaded ? constants.error() : loaded.error();
  }
  const std::lock_guard lock(m_mutex);   // other threads' settings are compared with what it stands for
  variant->constants = std::move(constants.value());
  variant->captured = kernel.function;
  variant->launched = kernel.launched;
  variant->settings.fetch_add(1);
  if (made != nullptr) m_all.push_back(std::move(made));
  return variant;
}

Variant* Replacements::take_idle(const Kernel& kernel, const std::vector<CUdeviceptr>& variables) noexcept {
  const std::lock_guard lock(m_mutex);
  const auto found = std::ranges::find_if(m_idle, [&](const Variant* each) {
    return each->rule == kernel.rule && each->context == kernel.context && each->variables == variables;
  });
  if (found == m_idle.end()) return nullptr;
  Variant* const variant = *found;
  m_idle.erase(found);
  return variant;
}

Result<void> Replacements::load_code(const Kernel& kernel, Variant& variant) {
  const capture::Replacement& how = *variant.how;
  const auto file = m_files.read(how.variant);
  if (!file) return file.error();
  std::vector<std::byte> code(file.value().begin(), file.value().end());
  code.push_back({});   // PTX ends with a zero byte
  if (Result<void> connected = connect(code, how, variant.variables); !connected) return connected;
  const LoadsOwn own;
  Result<void> done = checked("loading the variant",
                              driver().cuModuleLoadDataEx(&variant.module, code.data(), 0, nullptr, nullptr));
  if (!done) return done;
  done = checked("the variant's kernel " + how.symbol,
                 driver().cuModuleGetFunction(&variant.function, variant.module, how.symbol.c_str()));
  if (!done) return done;
  if (!have_the_same_parameters(variant.function, kernel.function)) {
    return Error{ErrorCode::unsupported, "the variant has other parameters than the program's kernel"};
  }
  CUdevice device = 0;
  driver().cuCtxGetDevice(&device);
  variant.most_shared = positive(device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  variant.max_threads = positive(attribute_of(variant.function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  variant.static_shared = positive(attribute_of(variant.function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  read_cluster(variant.function, variant.cluster);
  std::uint32_t captured[3];
  read_cluster(kernel.function, captured);
  if (std::ranges::equal(captured, variant.cluster)) return {};
  return Error{ErrorCode::unsupported, "the variant was compiled for other clusters (__cluster_dims__) than the program's kernel"};
}

void Replacements::carry_settings(Variant& variant) noexcept {
  if (variant.carried.load() == variant.settings.load()) return;
  const std::lock_guard loading(m_loading);
  const std::uint32_t settings = variant.settings.load();
  if (variant.carried.load() == settings) return;
  const RelaxedMode relaxed;
  (void)in_context(variant.context, [&]() -> Result<void> { return carry_each(variant), Result<void>(); });
  variant.carried.store(settings);   // now, and as they were before: what was set meanwhile is carried by the next launch
}

// Nothing that fails here ends anything: a launch that needs what could not be set runs the captured kernel.
void Replacements::carry_each(Variant& variant) noexcept {
  for (const CUfunction_attribute attribute : k_carried) {
    const int value = attribute_of(variant.captured, attribute);
    if (value != attribute_of(variant.function, attribute)) driver().cuFuncSetAttribute(variant.function, attribute, value);
  }
  const std::uint32_t own = variant.how->dynamic_group_bytes;
  const std::uint32_t room = variant.most_shared > variant.static_shared ? variant.most_shared - variant.static_shared : 0;
  const std::uint32_t before = positive(attribute_of(variant.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  std::uint32_t wanted = positive(attribute_of(variant.captured, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  if (own != capture::k_no_bytes) wanted = std::max(wanted, own);
  wanted = std::min(wanted, room);
  constexpr CUfunction_attribute k_most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  const bool is_set =
      wanted > before && driver().cuFuncSetAttribute(variant.function, k_most, static_cast<int>(wanted)) == CUDA_SUCCESS;
  variant.most_dynamic.store(is_set ? wanted : before);
  std::optional<CUfunc_cache> preferred;
  {
    const std::lock_guard lock(m_mutex);
    for (const void* named : {static_cast<const void*>(variant.captured), variant.launched}) {
      if (const auto known = m_caches.find(named); known != m_caches.end()) preferred = known->second;
    }
  }
  if (preferred) driver().cuFuncSetCacheConfig(variant.function, *preferred);
}

void Replacements::setting_changed(const void* function, bool is_of_library) noexcept {
  const std::lock_guard lock(m_mutex);
  for (const auto& each : m_all) {
    const bool is_its = each->captured == function || each->launched == function;
    // A program may launch the function of a CUkernel, and set something of that.
    if (is_its || (is_of_library && each->launched == each->captured)) each->settings.fetch_add(1);
  }
}

void Replacements::cache_preferred(const void* function, bool is_of_library, CUfunc_cache config) noexcept {
  {
    const std::lock_guard lock(m_mutex);
    m_caches[function] = config;
  }
  setting_changed(function, is_of_library);
}

void Replacements::module_gone(std::uint64_t module) noexcept {
  const std::lock_guard lock(m_mutex);
  std::erase_if(m_doubted, [&](const auto& each) { return each.first == module; });
  std::erase_if(m_variants, [&](const auto& item) {
    if (item.first.first != module) return false;
    if (item.second != nullptr) m_idle.push_back(item.second);
    return true;
  });
}

void Replacements::forget(CUcontext context) noexcept {
  const std::lock_guard lock(m_mutex);
  std::erase_if(m_variants, [&](const auto& item) { return item.second != nullptr && item.second->context == context; });
  std::erase_if(m_idle, [&](const Variant* variant) { return variant->context == context; });
}

}  // namespace kerncap::cuda
