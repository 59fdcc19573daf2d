// Reads the machine: agents, pools, and the facts about them that a manifest records.
#include "hsa/agents.hpp"

#include <cstdio>
#include <type_traits>

#include "capture/messages.hpp"
#include "hsa/api.hpp"

namespace kerncap::hsa {
namespace {

using capture::MemoryKind;

template <typename T>
T agent_info(hsa_agent_t agent, int attribute) noexcept {
  T value{};
  api().core.hsa_agent_get_info_fn(agent, static_cast<hsa_agent_info_t>(attribute), &value);
  return value;
}

std::string agent_text(hsa_agent_t agent, int attribute) {
  char text[256] = {};
  api().core.hsa_agent_get_info_fn(agent, static_cast<hsa_agent_info_t>(attribute), text);
  text[sizeof text - 1] = 0;
  return text;
}

template <typename T>
T pool_info(hsa_amd_memory_pool_t pool, hsa_amd_memory_pool_info_t attribute) noexcept {
  T value{};
  api().ext.hsa_amd_memory_pool_get_info_fn(pool, attribute, &value);
  return value;
}

MemoryKind kind_of(std::uint32_t flags, bool on_host) noexcept {
  if ((flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) != 0) return MemoryKind::kernarg;
  const bool extended = (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED) != 0;
  const bool fine = (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) != 0;
  if (on_host) return fine || extended ? MemoryKind::host_pinned : MemoryKind::host_coarse;
  if (extended) return MemoryKind::device_extended_fine;
  return fine ? MemoryKind::device_fine : MemoryKind::device_coarse;
}

std::string full_isa_name(hsa_agent_t agent) {
  std::string name;
  api().core.hsa_agent_iterate_isas_fn(
      agent,
      [](hsa_isa_t isa, void* out) {
        std::uint32_t length = 0;
        api().core.hsa_isa_get_info_alt_fn(isa, HSA_ISA_INFO_NAME_LENGTH, &length);
        std::string text(length, '\0');
        api().core.hsa_isa_get_info_alt_fn(isa, HSA_ISA_INFO_NAME, text.data());
        while (!text.empty() && text.back() == '\0') text.pop_back();
        *static_cast<std::string*>(out) = std::move(text);
        return HSA_STATUS_INFO_BREAK;  // the first is the most specific
      },
      &name);
  return name;
}

}  // namespace

bool Agents::discover() noexcept {
  std::vector<hsa_agent_t> all;
  api().core.hsa_iterate_agents_fn(
      [](hsa_agent_t agent, void* out) {
        static_cast<std::vector<hsa_agent_t>*>(out)->push_back(agent);
        return HSA_STATUS_SUCCESS;
      },
      &all);
  for (const hsa_agent_t agent : all) {
    const auto type = agent_info<hsa_device_type_t>(agent, HSA_AGENT_INFO_DEVICE);
    if (type == HSA_DEVICE_TYPE_GPU) m_devices.push_back({agent, full_isa_name(agent)});
    if (type == HSA_DEVICE_TYPE_CPU && m_host.handle == 0) m_host = agent;
  }
  for (const hsa_agent_t agent : all) add_pools(agent, index_of(agent));
  return !m_devices.empty();
}

void Agents::add_pools(hsa_agent_t agent, std::uint32_t device) {
  std::vector<hsa_amd_memory_pool_t> pools;
  api().ext.hsa_amd_agent_iterate_memory_pools_fn(
      agent,
      [](hsa_amd_memory_pool_t pool, void* out) {
        static_cast<std::vector<hsa_amd_memory_pool_t>*>(out)->push_back(pool);
        return HSA_STATUS_SUCCESS;
      },
      &pools);
  for (const hsa_amd_memory_pool_t pool : pools) {
    const auto segment = pool_info<hsa_amd_segment_t>(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT);
    if (segment != HSA_AMD_SEGMENT_GLOBAL) continue;
    const auto flags = pool_info<std::uint32_t>(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS);
    Pool known{};
    known.handle = pool.handle;
    known.device = device;
    known.kind = kind_of(flags, device == capture::k_no_device);
    known.granule_bytes = pool_info<std::size_t>(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE);
    for (std::size_t i = 0; i < m_devices.size() && i < 64; ++i) {
      hsa_amd_memory_pool_access_t access = HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
      api().ext.hsa_amd_agent_memory_pool_get_info_fn(m_devices[i].agent, pool,
                                                      HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access);
      const bool allowed = access == HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT || i == device;
      if (allowed) known.access |= std::uint64_t{1} << i;
    }
    m_pools.push_back(known);
  }
}

std::uint32_t Agents::index_of(hsa_agent_t agent) const noexcept {
  for (std::size_t i = 0; i < m_devices.size(); ++i) {
    if (m_devices[i].agent.handle == agent.handle) return static_cast<std::uint32_t>(i);
  }
  return capture::k_no_device;
}

const Pool* Agents::pool(std::uint64_t handle) const noexcept {
  for (const Pool& pool : m_pools) {
    if (pool.handle == handle) return &pool;
  }
  return nullptr;
}

const Pool* Agents::kernarg_pool() const noexcept {
  for (const Pool& pool : m_pools) {
    if (pool.kind == MemoryKind::kernarg && pool.device == capture::k_no_device) return &pool;
  }
  return nullptr;
}

capture::Message Agents::facts(std::uint32_t device) const noexcept {
  capture::Message message(capture::Up::facts);
  capture::messages::Facts{.scope = device}.write_head(message);
  const std::size_t count_at = message.size();
  message.u32(0);
  std::uint32_t count = 0;
  const auto add = [&](const char* key, const auto& value) {
    if constexpr (std::is_integral_v<std::decay_t<decltype(value)>>) {
      capture::messages::Fact{.key = key, .value = std::to_string(value)}.write(message);
    } else {
      capture::messages::Fact{.key = key, .value = value}.write(message);
    }
    ++count;
  };
  if (device == capture::k_no_device) {
    const char* build = nullptr;
    const auto attribute = static_cast<hsa_system_info_t>(HSA_AMD_SYSTEM_INFO_BUILD_VERSION);
    if (api().core.hsa_system_get_info_fn(attribute, &build) == HSA_STATUS_SUCCESS && build != nullptr) {
      add("runtime_version", build);
    }
    bool xnack = false;
    const auto xnack_attribute = static_cast<hsa_system_info_t>(HSA_AMD_SYSTEM_INFO_XNACK_ENABLED);
    api().core.hsa_system_get_info_fn(xnack_attribute, &xnack);
    add("xnack", std::uint32_t{xnack});
  } else {
    const hsa_agent_t agent = m_devices[device].agent;
    add("isa", m_devices[device].isa);
    add("architecture", agent_text(agent, HSA_AGENT_INFO_NAME));
    add("name", agent_text(agent, HSA_AMD_AGENT_INFO_PRODUCT_NAME));
    add("uuid", agent_text(agent, HSA_AMD_AGENT_INFO_UUID));
    add("compute_units", agent_info<std::uint32_t>(agent, HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT));
    add("wavefront_size", agent_info<std::uint32_t>(agent, HSA_AGENT_INFO_WAVEFRONT_SIZE));
    const auto bdf = agent_info<std::uint32_t>(agent, HSA_AMD_AGENT_INFO_BDFID);
    const auto domain = agent_info<std::uint32_t>(agent, HSA_AMD_AGENT_INFO_DOMAIN);
    char pci[32];
    std::snprintf(pci, sizeof pci, "%04x:%02x:%02x.%x", domain, (bdf >> 8) & 0xFF, (bdf >> 3) & 0x1F, bdf & 7);
    add("pci_address", static_cast<const char*>(pci));
    std::uint64_t memory = 0;
    for (const Pool& pool : m_pools) {
      if (pool.device != device || pool.kind != MemoryKind::device_coarse) continue;
      memory = pool_info<std::size_t>({pool.handle}, HSA_AMD_MEMORY_POOL_INFO_SIZE);
    }
    add("memory_size_bytes", memory);
  }
  message.patch_u32(count_at, count);
  return message;
}

}  // namespace kerncap::hsa
