// HSA's side of the test programs: checked calls, the agents and pools of the machine, waiting with a limit.
#pragma once

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "tally.hpp"

#define HSA_OK(call)                                                                                     \
  do {                                                                                                   \
    const hsa_status_t hsa_status = (call);                                                              \
    if (hsa_status != HSA_STATUS_SUCCESS && hsa_status != HSA_STATUS_INFO_BREAK) {                       \
      const char* hsa_text = "?";                                                                        \
      hsa_status_string(hsa_status, &hsa_text);                                                          \
      std::fprintf(stderr, "%s:%d: %s: 0x%x %s\n", __FILE__, __LINE__, #call, hsa_status, hsa_text);     \
      std::exit(1);                                                                                      \
    }                                                                                                    \
  } while (false)

struct Pool {
  hsa_amd_memory_pool_t handle{};
  std::uint32_t flags = 0;
  bool can_allocate = false;
  std::size_t granule_bytes = 0;
};

struct Agent {
  hsa_agent_t handle{};
  std::vector<Pool> pools;

  // The first pool that has one of these flags and gives memory; ends the program when there is none.
  [[nodiscard]] const Pool& pool(std::uint32_t flags) const {
    for (const Pool& candidate : pools)
      if (candidate.can_allocate && (candidate.flags & flags) != 0) return candidate;
    std::fprintf(stderr, "no pool with flags %u\n", flags);
    std::exit(1);
  }
  [[nodiscard]] const Pool& coarse() const { return pool(HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED); }
  [[nodiscard]] const Pool& fine() const { return pool(HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED); }
};

struct Machine {
  Machine() {
    HSA_OK(hsa_init());
    HSA_OK(hsa_iterate_agents(add_agent, this));
    if (cpus.empty() || gpus.empty()) {
      std::fprintf(stderr, "%zu CPU and %zu GPU agents\n", cpus.size(), gpus.size());
      std::exit(1);
    }
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() { hsa_shut_down(); }

  std::vector<Agent> cpus, gpus;

 private:
  static hsa_status_t add_agent(hsa_agent_t handle, void* data) {
    Agent agent{handle, {}};
    hsa_device_type_t type;
    HSA_OK(hsa_agent_get_info(handle, HSA_AGENT_INFO_DEVICE, &type));
    HSA_OK(hsa_amd_agent_iterate_memory_pools(handle, add_pool, &agent.pools));
    Machine* machine = static_cast<Machine*>(data);
    (type == HSA_DEVICE_TYPE_CPU ? machine->cpus : machine->gpus).push_back(agent);
    return HSA_STATUS_SUCCESS;
  }
  static hsa_status_t add_pool(hsa_amd_memory_pool_t handle, void* data) {
    hsa_amd_segment_t segment;
    HSA_OK(hsa_amd_memory_pool_get_info(handle, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
    Pool pool{handle, 0, false, 0};
    HSA_OK(hsa_amd_memory_pool_get_info(handle, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &pool.flags));
    HSA_OK(hsa_amd_memory_pool_get_info(handle, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &pool.can_allocate));
    if (pool.can_allocate)
      HSA_OK(hsa_amd_memory_pool_get_info(handle, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE, &pool.granule_bytes));
    static_cast<std::vector<Pool>*>(data)->push_back(pool);
    return HSA_STATUS_SUCCESS;
  }
};

class Signal {
 public:
  explicit Signal(hsa_signal_value_t value) { HSA_OK(hsa_signal_create(value, 0, nullptr, &m_signal)); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal() { hsa_signal_destroy(m_signal); }
  operator hsa_signal_t() const { return m_signal; }  // NOLINT: used as the handle it stands for

  // Waits until it is below 1; a minute without that ends the program. (ROCr counts in nanoseconds.)
  void wait(const char* what) const {
    constexpr std::uint64_t k_minute = 60ull * 1000 * 1000 * 1000;
    if (hsa_signal_wait_scacquire(m_signal, HSA_SIGNAL_CONDITION_LT, 1, k_minute, HSA_WAIT_STATE_BLOCKED) < 1) return;
    std::fprintf(stderr, "%s did not end\n", what);
    std::exit(1);
  }

 private:
  hsa_signal_t m_signal{};
};

// One packet in a queue: written whole, header last, then the doorbell.
template <typename Packet>
void submit(hsa_queue_t* queue, const Packet& packet, std::uint16_t header, std::uint16_t second_half) {
  static_assert(sizeof(Packet) == 64);
  const std::uint64_t index = hsa_queue_add_write_index_screlease(queue, 1);
  while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size) {
  }
  char* slot = static_cast<char*>(queue->base_address) + (index % queue->size) * 64;
  std::memcpy(slot + 4, reinterpret_cast<const char*>(&packet) + 4, 60);
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(slot), header | std::uint32_t{second_half} << 16, __ATOMIC_RELEASE);
  hsa_signal_store_screlease(queue->doorbell_signal, static_cast<hsa_signal_value_t>(index));
}

inline std::uint16_t packet_header(hsa_packet_type_t type, bool barrier) {
  return static_cast<std::uint16_t>(type << HSA_PACKET_HEADER_TYPE | barrier << HSA_PACKET_HEADER_BARRIER |
                                    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                                    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}
