// Follows the program's allocations. A hook calls the runtime first and records what it did; frees are
// forgotten first, as the address may be handed out again at once.
#include <sys/mman.h>

#include "hsa/allocating.hpp"
#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

using capture::Allocation;
using capture::MemoryKind;

constexpr std::uint32_t k_pool_uncached = 1u << 3;  // HSA_AMD_MEMORY_POOL_UNCACHED_FLAG, not in 6.4's header

std::uint64_t address_of(const void* pointer) noexcept { return reinterpret_cast<std::uint64_t>(pointer); }

std::uint64_t mask_of(const hsa_agent_t* agents, std::size_t count) noexcept {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t device = tool()->agents.index_of(agents[i]);
    if (device < 64) mask |= std::uint64_t{1} << device;
  }
  return mask;
}

std::uint64_t all_devices() noexcept {
  const std::size_t count = tool()->agents.devices().size();
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

void record_pool_allocation(std::uint64_t pool_handle, std::size_t bytes, std::uint32_t flags, const void* base) {
  const Pool* pool = tool()->agents.pool(pool_handle);
  if (pool == nullptr || bytes == 0) return;
  Allocation made;
  made.base = address_of(base);
  // The rest of the last granule belongs to the program too.
  const std::uint64_t granule = pool->granule_bytes == 0 ? 4096 : pool->granule_bytes;
  made.bytes = (bytes + granule - 1) / granule * granule;
  made.align = granule;
  made.kind = pool->kind;
  made.device = pool->device;
  made.access = pool->access;
  if ((flags & HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG) != 0) made.flags |= capture::k_region_executable;
  if ((flags & k_pool_uncached) != 0) made.flags |= capture::k_region_uncached;
  tool()->arguments.forget(made.base, made.bytes);
  tool()->memory.allocations.add(made);
}

void record_pinned(void* host, std::size_t bytes, const hsa_agent_t* agents, int count, void* device_address) {
  Allocation pinned;
  pinned.base = address_of(device_address);
  pinned.bytes = bytes;
  pinned.kind = MemoryKind::host_registered;
  pinned.host = address_of(host);
  pinned.access = agents == nullptr || count == 0 ? all_devices() : mask_of(agents, static_cast<std::size_t>(count));
  tool()->memory.pinned.lock(pinned);
}

// Memory of another process or API: the runtime knows whose it is and how large.
void record_foreign(void* base, std::size_t bytes) {
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  api().ext.hsa_amd_pointer_info_fn(base, &info, nullptr, nullptr, nullptr);
  Allocation made;
  made.base = address_of(base);
  made.bytes = info.sizeInBytes > bytes ? info.sizeInBytes : bytes;
  made.kind = MemoryKind::ipc;
  made.device = tool()->agents.index_of(info.agentOwner);
  made.access = all_devices();
  tool()->arguments.forget(made.base, made.bytes);
  tool()->memory.allocations.add(made);
}

void free_pool_memory(void* memory) { api().ext.hsa_amd_memory_pool_free_fn(memory); }
void free_region_memory(void* memory) { api().core.hsa_memory_free_fn(memory); }

}  // namespace

namespace hooks {

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags, void** ptr) {
  const hsa_status_t status = allocate_again_if_kept(
      [&] { return api().ext.hsa_amd_memory_pool_allocate_fn(pool, size, flags, ptr); });
  if (status == HSA_STATUS_SUCCESS && enabled()) record_pool_allocation(pool.handle, size, flags, *ptr);
  return status;
}

hsa_status_t hsa_amd_memory_pool_free(void* ptr) {
  if (!enabled() || !tool()->memory.allocations.remove(address_of(ptr))) return api().ext.hsa_amd_memory_pool_free_fn(ptr);
  if (tool()->snapshots.session().keep_until_idle(ptr, free_pool_memory)) return HSA_STATUS_SUCCESS;
  return api().ext.hsa_amd_memory_pool_free_fn(ptr);
}

hsa_status_t hsa_memory_allocate(hsa_region_t region, size_t size, void** ptr) {
  const hsa_status_t status = allocate_again_if_kept([&] { return api().core.hsa_memory_allocate_fn(region, size, ptr); });
  // A region and the pool of the same memory have one handle in ROCr.
  if (status == HSA_STATUS_SUCCESS && enabled()) record_pool_allocation(region.handle, size, 0, *ptr);
  return status;
}

hsa_status_t hsa_memory_free(void* ptr) {
  if (!enabled() || !tool()->memory.allocations.remove(address_of(ptr))) return api().core.hsa_memory_free_fn(ptr);
  if (tool()->snapshots.session().keep_until_idle(ptr, free_region_memory)) return HSA_STATUS_SUCCESS;
  return api().core.hsa_memory_free_fn(ptr);
}

hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t* agents, const uint32_t* flags,
                                         const void* ptr) {
  const hsa_status_t status = api().ext.hsa_amd_agents_allow_access_fn(num_agents, agents, flags, ptr);
  if (status == HSA_STATUS_SUCCESS && enabled()) {
    tool()->memory.allocations.set_access(address_of(ptr), mask_of(agents, num_agents));
  }
  return status;
}

hsa_status_t hsa_amd_memory_lock(void* host_ptr, size_t size, hsa_agent_t* agents, int num_agent, void** agent_ptr) {
  const hsa_status_t status = api().ext.hsa_amd_memory_lock_fn(host_ptr, size, agents, num_agent, agent_ptr);
  if (status == HSA_STATUS_SUCCESS && enabled()) record_pinned(host_ptr, size, agents, num_agent, *agent_ptr);
  return status;
}

hsa_status_t hsa_amd_memory_lock_to_pool(void* host_ptr, size_t size, hsa_agent_t* agents, int num_agent,
                                         hsa_amd_memory_pool_t pool, uint32_t flags, void** agent_ptr) {
  const hsa_status_t status =
      api().ext.hsa_amd_memory_lock_to_pool_fn(host_ptr, size, agents, num_agent, pool, flags, agent_ptr);
  if (status == HSA_STATUS_SUCCESS && enabled()) record_pinned(host_ptr, size, agents, num_agent, *agent_ptr);
  return status;
}

hsa_status_t hsa_amd_memory_unlock(void* host_ptr) {
  capture::Session::Call call;
  if (enabled()) {
    tool()->memory.pinned.unlock(address_of(host_ptr));
    call = tool()->snapshots.session().wait_until_idle();   // the program may unmap it next
  }
  return api().ext.hsa_amd_memory_unlock_fn(host_ptr);
}

hsa_status_t hsa_amd_svm_attributes_set(void* ptr, size_t size, hsa_amd_svm_attribute_pair_t* attributes,
                                        size_t count) {
  const hsa_status_t status = api().ext.hsa_amd_svm_attributes_set_fn(ptr, size, attributes, count);
  if (status != HSA_STATUS_SUCCESS || !enabled()) return status;
  std::uint64_t grant = 0;
  std::uint64_t deny = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::uint32_t device = tool()->agents.index_of({attributes[i].value});
    if (device >= 64) continue;
    const std::uint64_t bit = std::uint64_t{1} << device;
    switch (attributes[i].attribute) {
      case HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE:
      case HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE_IN_PLACE:
        grant |= bit;
        break;
      case HSA_AMD_SVM_ATTRIB_AGENT_NO_ACCESS:
        deny |= bit;
        break;
      default:
        break;
    }
  }
  if ((grant | deny) != 0) tool()->memory.managed.set_access(address_of(ptr), size, grant, deny);
  return status;
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t* handle, size_t len, uint32_t num_agents,
                                       const hsa_agent_t* mapping_agents, void** mapped_ptr) {
  const hsa_status_t status =
      api().ext.hsa_amd_ipc_memory_attach_fn(handle, len, num_agents, mapping_agents, mapped_ptr);
  if (status == HSA_STATUS_SUCCESS && enabled()) record_foreign(*mapped_ptr, len);
  return status;
}

hsa_status_t hsa_amd_ipc_memory_detach(void* mapped_ptr) {
  capture::Session::Call call;
  if (enabled()) {
    tool()->memory.allocations.remove(address_of(mapped_ptr));
    call = tool()->snapshots.session().wait_until_idle();
  }
  return api().ext.hsa_amd_ipc_memory_detach_fn(mapped_ptr);
}

hsa_status_t hsa_amd_interop_map_buffer(uint32_t num_agents, hsa_agent_t* agents, int interop_handle,
                                        uint32_t flags, size_t* size, void** ptr, size_t* metadata_size,
                                        const void** metadata) {
  const hsa_status_t status = api().ext.hsa_amd_interop_map_buffer_fn(num_agents, agents, interop_handle, flags,
                                                                      size, ptr, metadata_size, metadata);
  if (status == HSA_STATUS_SUCCESS && enabled()) record_foreign(*ptr, *size);
  return status;
}

hsa_status_t hsa_amd_interop_unmap_buffer(void* ptr) {
  capture::Session::Call call;
  if (enabled()) {
    tool()->memory.allocations.remove(address_of(ptr));
    call = tool()->snapshots.session().wait_until_idle();
  }
  return api().ext.hsa_amd_interop_unmap_buffer_fn(ptr);
}

}  // namespace hooks
}  // namespace kerncap::hsa
