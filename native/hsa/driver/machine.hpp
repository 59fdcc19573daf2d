// The GPUs, pools and the queue that a replay uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "hsa/driver/runtime.hpp"
#include "replay/driver.hpp"

namespace kerncap::hsa {

struct ReplayPool {
  hsa_amd_memory_pool_t handle;
  std::uint32_t flags;                  // HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_*
};

struct ReplayDevice {
  hsa_agent_t agent{};
  std::string name;
  std::string isa;
  std::vector<ReplayPool> pools;
  replay::Driver::Peaks peaks = {};
  std::uint32_t compute_units = 0;
  std::uint32_t waves_per_unit = 0;     // at most
  std::uint32_t work_group_lds_bytes = 0;  // at most

  // Its memory is memory of this process.
  [[nodiscard]] bool is_software() const { return name.find("software") != std::string::npos; }
  // The pool with one of these flags; null when there is none.
  [[nodiscard]] const ReplayPool* pool(std::uint32_t flags) const;
};

struct Machine {
  std::vector<ReplayDevice> devices;
  ReplayDevice host;
  std::string runtime_version;
};

[[nodiscard]] core::Result<Machine> find_machine(const Runtime& runtime);

}  // namespace kerncap::hsa
