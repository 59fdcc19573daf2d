// The GPUs and memory pools of the machine, read once when the library is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/protocol.hpp"
#include "capture/wire.hpp"
#include "hsa/hsa_headers.hpp"

namespace kerncap::hsa {

struct Pool {
  std::uint64_t handle;
  std::uint32_t device;             // k_no_device for host pools
  capture::MemoryKind kind;
  std::uint64_t granule_bytes;
  std::uint64_t access;             // devices that may touch it without being asked, bit i = device i
};

struct Device {
  hsa_agent_t agent;
  std::string isa;                  // amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-
};

class Agents {
 public:
  // False when the runtime has no GPU: nothing to do here, then.
  bool discover() noexcept;

  [[nodiscard]] const std::vector<Device>& devices() const noexcept { return m_devices; }
  [[nodiscard]] const std::vector<Pool>& pools() const noexcept { return m_pools; }
  // k_no_device for a CPU.
  [[nodiscard]] std::uint32_t index_of(hsa_agent_t agent) const noexcept;
  [[nodiscard]] const Pool* pool(std::uint64_t handle) const noexcept;
  // A host pool that kernels may take arguments from.
  [[nodiscard]] const Pool* kernarg_pool() const noexcept;
  [[nodiscard]] hsa_agent_t host() const noexcept { return m_host; }

  // What a capture says about the machine: one message, scope = device index or k_no_device.
  [[nodiscard]] capture::Message facts(std::uint32_t device) const noexcept;

 private:
  void add_pools(hsa_agent_t agent, std::uint32_t device);

  std::vector<Device> m_devices;
  std::vector<Pool> m_pools;
  hsa_agent_t m_host{};
};

}  // namespace kerncap::hsa
