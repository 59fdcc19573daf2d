// Memory pools: every pool of every agent gives memory; pointers are known; what the CPU may see it can use.
#include "hsa_check.hpp"

namespace {

void check_pool(Tally& tally, const Machine& machine, const Agent& owner, const Pool& pool) {
  for (const std::size_t size_bytes : {pool.granule_bytes, std::size_t{1} << 20, (std::size_t{3} << 20) + pool.granule_bytes}) {
    void* memory = nullptr;
    HSA_OK(hsa_amd_memory_pool_allocate(pool.handle, size_bytes, 0, &memory));
    hsa_amd_pointer_info_t info{};
    info.size = sizeof info;
    HSA_OK(hsa_amd_pointer_info(memory, &info, nullptr, nullptr, nullptr));
    tally.equal("pointer type", 0, static_cast<int>(info.type), static_cast<int>(HSA_EXT_POINTER_TYPE_HSA));
    tally.expect(info.agentBaseAddress == memory, "base", 0, 0, 1);
    tally.expect(info.sizeInBytes >= size_bytes, "size", 0, static_cast<double>(info.sizeInBytes),
                 static_cast<double>(size_bytes));
    tally.expect(info.agentOwner.handle == owner.handle.handle, "owner", 0, 0, 1);

    hsa_amd_memory_pool_access_t access;
    HSA_OK(hsa_amd_agent_memory_pool_get_info(machine.cpus[0].handle, pool.handle, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
    if (access == HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT) {
      const hsa_agent_t both[2] = {machine.cpus[0].handle, machine.gpus[0].handle};
      HSA_OK(hsa_amd_agents_allow_access(2, both, nullptr, memory));
    }
    if (access != HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED) {
      unsigned* words = static_cast<unsigned*>(memory);
      for (std::size_t i = 0; i < size_bytes / 4; i += 61) words[i] = static_cast<unsigned>(i) ^ 0xA5A5u;
      for (std::size_t i = 0; i < size_bytes / 4; i += 61) tally.equal("word", i, words[i], static_cast<unsigned>(i) ^ 0xA5A5u);
    }
    HSA_OK(hsa_amd_memory_pool_free(memory));
  }
  // Freed memory can be had again, many times over.
  std::vector<void*> blocks(40);
  for (int round = 0; round < 3; ++round) {
    for (void*& block : blocks) HSA_OK(hsa_amd_memory_pool_allocate(pool.handle, 256 << 10, 0, &block));
    for (std::size_t i = 0; i < blocks.size(); ++i)
      for (std::size_t k = 0; k < i; ++k) tally.expect(blocks[i] != blocks[k], "distinct", i, 0, 1);
    for (void* block : blocks) HSA_OK(hsa_amd_memory_pool_free(block));
  }
  void* impossible = nullptr;
  tally.expect(hsa_amd_memory_pool_allocate(pool.handle, std::size_t{1} << 50, 0, &impossible) != HSA_STATUS_SUCCESS,
               "a petabyte is refused", 0, 0, 1);
}

}  // namespace

int main() {
  const Machine machine;
  Tally tally("hsa_pool");
  for (const std::vector<Agent>* agents : {&machine.cpus, &machine.gpus})
    for (const Agent& agent : *agents)
      for (const Pool& pool : agent.pools)
        if (pool.can_allocate) check_pool(tally, machine, agent, pool);

  // Host memory that the GPU is let into.
  std::vector<int> host(5000, 3);
  void* seen_by_gpu = nullptr;
  hsa_agent_t gpu = machine.gpus[0].handle;
  HSA_OK(hsa_amd_memory_lock(host.data(), host.size() * sizeof(int), &gpu, 1, &seen_by_gpu));
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  HSA_OK(hsa_amd_pointer_info(host.data(), &info, nullptr, nullptr, nullptr));
  // With the driver's SVM interface, ROCr registers host memory where it is and does not remember it.
  tally.expect(info.type == HSA_EXT_POINTER_TYPE_LOCKED || info.type == HSA_EXT_POINTER_TYPE_UNKNOWN, "locked pointer type",
               0, static_cast<double>(info.type), static_cast<double>(HSA_EXT_POINTER_TYPE_LOCKED));
  HSA_OK(hsa_amd_memory_unlock(host.data()));
  return tally.finish();
}
