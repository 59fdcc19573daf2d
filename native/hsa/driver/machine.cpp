// Reads the machine for a replay.
#include "hsa/driver/machine.hpp"

namespace kerncap::hsa {
namespace {

// What a callback of an iteration needs: the functions, and where to put things.
struct Gather {
  const Runtime* runtime;
  Machine* machine;
  ReplayDevice* device;
};

std::string text_of(const Runtime& runtime, hsa_agent_t agent, int attribute) {
  char text[256] = {};
  runtime.hsa_agent_get_info(agent, static_cast<hsa_agent_info_t>(attribute), text);
  text[sizeof text - 1] = 0;
  return text;
}

std::uint32_t number_of(const Runtime& runtime, hsa_agent_t agent, int attribute) {
  std::uint32_t number = 0;
  return runtime.hsa_agent_get_info(agent, static_cast<hsa_agent_info_t>(attribute), &number) == HSA_STATUS_SUCCESS ? number : 0;
}

// Nothing of memory: its width and clock give half of what MI300's moves, and caches are told one by one.
replay::Driver::Peaks peaks_of(const Runtime& runtime, const ReplayDevice& device) {
  return {
      .compute_units = device.compute_units,
      .clock_hz = std::uint64_t{number_of(runtime, device.agent, HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY)} * 1'000'000,
  };
}

hsa_status_t add_pool(hsa_amd_memory_pool_t pool, void* data) {
  const auto& gather = *static_cast<Gather*>(data);
  hsa_amd_segment_t segment{};
  gather.runtime->hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
  if (segment == HSA_AMD_SEGMENT_GROUP) {
    std::size_t bytes = 0;
    gather.runtime->hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &bytes);
    gather.device->work_group_lds_bytes = static_cast<std::uint32_t>(bytes);
  }
  if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
  std::uint32_t flags = 0;
  gather.runtime->hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
  gather.device->pools.push_back({pool, flags});
  return HSA_STATUS_SUCCESS;
}

hsa_status_t name_isa(hsa_isa_t isa, void* data) {
  const auto& gather = *static_cast<Gather*>(data);
  std::uint32_t length = 0;
  gather.runtime->hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME_LENGTH, &length);
  std::string name(length, '\0');
  gather.runtime->hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME, name.data());
  while (!name.empty() && name.back() == '\0') name.pop_back();
  gather.device->isa = std::move(name);
  return HSA_STATUS_INFO_BREAK;
}

hsa_status_t add_agent(hsa_agent_t agent, void* data) {
  Gather gather = *static_cast<Gather*>(data);
  const Runtime& runtime = *gather.runtime;
  hsa_device_type_t type{};
  runtime.hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
  ReplayDevice device{agent, text_of(runtime, agent, HSA_AMD_AGENT_INFO_PRODUCT_NAME), {}, {}};
  gather.device = &device;
  runtime.hsa_amd_agent_iterate_memory_pools(agent, add_pool, &gather);
  if (type == HSA_DEVICE_TYPE_GPU) {
    runtime.hsa_agent_iterate_isas(agent, name_isa, &gather);
    device.compute_units = number_of(runtime, agent, HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT);
    device.waves_per_unit = number_of(runtime, agent, HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU);
    // A software GPU has the numbers of the chip that it stands for, and none of its speed.
    if (!device.is_software()) device.peaks = peaks_of(runtime, device);
    gather.machine->devices.push_back(device);
  } else if (type == HSA_DEVICE_TYPE_CPU && gather.machine->host.agent.handle == 0) {
    gather.machine->host = device;
  }
  return HSA_STATUS_SUCCESS;
}

}  // namespace

const ReplayPool* ReplayDevice::pool(std::uint32_t flags) const {
  for (const ReplayPool& candidate : pools) {
    if ((candidate.flags & flags) != 0) return &candidate;
  }
  return nullptr;
}

core::Result<Machine> find_machine(const Runtime& runtime) {
  Machine machine;
  Gather gather{&runtime, &machine, nullptr};
  runtime.hsa_iterate_agents(add_agent, &gather);
  if (machine.devices.empty()) return core::Error{core::ErrorCode::device, "ROCr finds no GPU"};
  const char* version = nullptr;
  const auto attribute = static_cast<hsa_system_info_t>(HSA_AMD_SYSTEM_INFO_BUILD_VERSION);
  if (runtime.hsa_system_get_info(attribute, &version) == HSA_STATUS_SUCCESS && version != nullptr) {
    machine.runtime_version = version;
  }
  return machine;
}

}  // namespace kerncap::hsa
