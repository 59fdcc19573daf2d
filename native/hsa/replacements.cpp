// Loads variants, on the program's thread, within hsa_executable_freeze; and rewrites packets, where nothing may wait.
// The runtime is called through its own functions: what is loaded here is no module of the program.
#include "hsa/replacements.hpp"

#include <algorithm>
#include <cstring>

#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

namespace messages = capture::messages;
using capture::ReplaceOutcome;
using core::Error;
using core::ErrorCode;
using core::Result;

template <typename T>
T symbol_info(hsa_executable_symbol_t symbol, hsa_executable_symbol_info_t attribute) noexcept {
  T value{};
  api().core.hsa_executable_symbol_get_info_fn(symbol, attribute, &value);
  return value;
}

// The LDS that a work-group may have.
std::uint32_t most_group_bytes(hsa_agent_t agent) noexcept {
  std::size_t most = 0;
  api().ext.hsa_amd_agent_iterate_memory_pools_fn(
      agent,
      [](hsa_amd_memory_pool_t pool, void* out) {
        hsa_amd_segment_t segment{};
        api().ext.hsa_amd_memory_pool_get_info_fn(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
        if (segment != HSA_AMD_SEGMENT_GROUP) return HSA_STATUS_SUCCESS;
        api().ext.hsa_amd_memory_pool_get_info_fn(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, out);
        return HSA_STATUS_INFO_BREAK;
      },
      &most);
  return static_cast<std::uint32_t>(std::min<std::size_t>(most, UINT32_MAX));
}

// Code that computed addresses of the variant's own variables has those of the program's then.
Result<void> connect(std::span<std::byte> code, const std::vector<messages::Patch>& patches, std::int64_t delta) {
  const auto put = [&](std::uint32_t place, std::uint32_t word) {
    if (place > code.size() || code.size() - place < sizeof word) return false;
    std::memcpy(&code[place], &word, sizeof word);
    return true;
  };
  for (const messages::Patch& patch : patches) {
    const std::uint64_t address = patch.variable + static_cast<std::uint64_t>(delta);
    if (put(patch.place, patch.instruction) && put(patch.low, static_cast<std::uint32_t>(address)) &&
        put(patch.high, static_cast<std::uint32_t>(address >> 32))) {
      continue;
    }
    return Error{ErrorCode::damaged, "a place of the program's variables is not in the variant's file"};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Variant>> Replacements::load_on(hsa_agent_t agent, const capture::Replacement& how,
                                                       std::int64_t delta, std::uint32_t kernarg_bytes, Loaded& loaded) {
  const auto& core = api().core;
  const auto given = m_files.read(how.variant);
  if (!given) return given.error();
  loaded.code.assign(given.value().begin(), given.value().end());
  if (Result<void> connected = connect(loaded.code, how.patches, delta); !connected) return connected.error();
  hsa_status_t status =
      core.hsa_code_object_reader_create_from_memory_fn(loaded.code.data(), loaded.code.size(), &loaded.reader);
  if (status != HSA_STATUS_SUCCESS) return hsa_error("reading the variant", status);
  status = core.hsa_executable_create_alt_fn(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr,
                                             &loaded.executable);
  if (status != HSA_STATUS_SUCCESS) return hsa_error("creating an executable for the variant", status);
  status = core.hsa_executable_load_agent_code_object_fn(loaded.executable, agent, loaded.reader, nullptr, nullptr);
  if (status == HSA_STATUS_SUCCESS) status = core.hsa_executable_freeze_fn(loaded.executable, nullptr);
  if (status != HSA_STATUS_SUCCESS) return hsa_error("loading the variant", status);
  hsa_executable_symbol_t kernel{};
  status = core.hsa_executable_get_symbol_by_name_fn(loaded.executable, (how.symbol + ".kd").c_str(), &agent, &kernel);
  if (status != HSA_STATUS_SUCCESS) return Error{ErrorCode::not_found, "the variant has no kernel " + how.symbol};
  // Other code may have other arguments under the same name.
  if (symbol_info<std::uint32_t>(kernel, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE) > kernarg_bytes) {
    return Error{ErrorCode::unsupported, "the variant has more arguments than the program's kernel"};
  }
  auto variant = std::make_unique<Variant>();
  variant->how = &how;
  variant->kernel_object = symbol_info<std::uint64_t>(kernel, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT);
  variant->group_bytes = symbol_info<std::uint32_t>(kernel, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE);
  variant->private_bytes = symbol_info<std::uint32_t>(kernel, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE);
  variant->most_group_bytes = most_group_bytes(agent);
  return variant;
}

const Variant* Replacements::load(std::uint64_t module, std::span<const std::byte> captured, std::int64_t delta,
                                  hsa_agent_t agent, hsa_executable_symbol_t kernel, std::uint32_t rule) noexcept {
  const auto tell = [&](ReplaceOutcome outcome, const std::string& reason) {
    tool()->channel->send(
        messages::Replaced{.module = module, .rule = rule, .outcome = outcome, .reason = reason});
    return nullptr;
  };
  const std::lock_guard lock(m_mutex);
  const capture::Replacement* const how = tool()->channel->replacement(rule);
  if (how == nullptr) return tell(ReplaceOutcome::failed, "the collector did not say what replaces it");
  if (!how->captured.empty()) {
    const auto is_captured = m_files.holds(how->captured, captured);
    if (!is_captured) return tell(ReplaceOutcome::failed, is_captured.error().message);
    if (!is_captured.value()) return tell(ReplaceOutcome::other_code, {});
  }
  Loaded loaded;
  const auto kernarg_bytes = symbol_info<std::uint32_t>(kernel, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE);
  auto made = load_on(agent, *how, delta, kernarg_bytes, loaded);
  if (!made) {
    if (loaded.executable.handle != 0) api().core.hsa_executable_destroy_fn(loaded.executable);
    if (loaded.reader.handle != 0) api().core.hsa_code_object_reader_destroy_fn(loaded.reader);
    return tell(ReplaceOutcome::failed, made.error().message);
  }
  made.value()->captured_group_bytes =
      symbol_info<std::uint32_t>(kernel, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE);
  m_loaded.emplace(module, std::move(loaded));
  tell(ReplaceOutcome::replaced, {});
  return m_variants.emplace_back(std::move(made.value())).get();
}

void Replacements::remove_module(std::uint64_t module) noexcept {
  const std::lock_guard lock(m_mutex);
  const auto [begin, end] = m_loaded.equal_range(module);
  for (auto each = begin; each != end; ++each) {
    api().core.hsa_executable_destroy_fn(each->second.executable);
    api().core.hsa_code_object_reader_destroy_fn(each->second.reader);
  }
  m_loaded.erase(begin, end);
}

bool Replacements::rewrite(const Kernel& kernel, Packet& packet) noexcept {
  capture::Channel& channel = *tool()->channel;
  const Variant& variant = *kernel.variant;
  hsa_kernel_dispatch_packet_t dispatch = as_dispatch(packet);
  const capture::Shape asked{{dispatch.grid_size_x, dispatch.grid_size_y, dispatch.grid_size_z},
                             {dispatch.workgroup_size_x, dispatch.workgroup_size_y, dispatch.workgroup_size_z}};
  const capture::Shape launch = variant.how->launch(asked);
  const std::uint32_t dynamic_bytes =
      variant.how->dynamic_group_bytes != capture::k_no_bytes ? variant.how->dynamic_group_bytes
      : dispatch.group_segment_size > variant.captured_group_bytes
          ? dispatch.group_segment_size - variant.captured_group_bytes
          : 0;
  const std::uint64_t group_bytes = std::uint64_t{variant.group_bytes} + dynamic_bytes;
  const bool has_room = variant.most_group_bytes == 0 || group_bytes <= variant.most_group_bytes;
  if (!capture::has_shape(channel.rules()[kernel.rule], asked) || !variant.how->allows(launch) || !has_room) {
    capture::keep_captured(channel.control(), kernel.rule, asked);
    return false;
  }
  dispatch.grid_size_x = static_cast<std::uint32_t>(launch.grid_work_items[0]);
  dispatch.grid_size_y = static_cast<std::uint32_t>(launch.grid_work_items[1]);
  dispatch.grid_size_z = static_cast<std::uint32_t>(launch.grid_work_items[2]);
  dispatch.workgroup_size_x = static_cast<std::uint16_t>(launch.block[0]);
  dispatch.workgroup_size_y = static_cast<std::uint16_t>(launch.block[1]);
  dispatch.workgroup_size_z = static_cast<std::uint16_t>(launch.block[2]);
  if (launch.grid_work_items[1] > 1 || launch.grid_work_items[2] > 1) {
    dispatch.setup = 3 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
  }
  dispatch.group_segment_size = static_cast<std::uint32_t>(group_bytes);
  // HIP may ask for more than the captured kernel needs: the stack of a recursion.
  dispatch.private_segment_size = std::max(dispatch.private_segment_size, variant.private_bytes);
  dispatch.kernel_object = variant.kernel_object;
  packet = to_packet(dispatch);
  channel.control().replaced[kernel.rule].fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace kerncap::hsa
