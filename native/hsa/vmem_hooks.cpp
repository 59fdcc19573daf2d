// Follows hsa_amd_vmem_*: physical handles, their mappings and the devices that may use them.
#include <mutex>

#include "hsa/allocating.hpp"
#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa::hooks {

namespace {
std::uint64_t address_of(const void* pointer) noexcept { return reinterpret_cast<std::uint64_t>(pointer); }

// `visit`: with a device's index, and whether it may read and write.
template <typename Visit>
void for_each_right(const hsa_amd_memory_access_desc_t* rights, std::size_t count, Visit visit) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t device = tool()->agents.index_of(rights[i].agent_handle);
    const hsa_access_permission_t right = rights[i].permissions;
    const bool reads = right == HSA_ACCESS_PERMISSION_RO || right == HSA_ACCESS_PERMISSION_RW;
    const bool writes = right == HSA_ACCESS_PERMISSION_WO || right == HSA_ACCESS_PERMISSION_RW;
    if (device < 64) visit(device, reads, writes);
  }
}

void record_rights(void* va, std::size_t size, const hsa_amd_memory_access_desc_t* rights, std::size_t count) {
  for_each_right(rights, count, [&](std::uint32_t device, bool reads, bool writes) {
    tool()->memory.mappings.set_access(address_of(va), size, device, reads, writes);
  });
}

bool changes_rights(void* va, std::size_t size, const hsa_amd_memory_access_desc_t* rights, std::size_t count) {
  bool changes = false;
  for_each_right(rights, count, [&](std::uint32_t device, bool reads, bool writes) {
    changes = changes || tool()->memory.mappings.changes_access(address_of(va), size, device, reads, writes);
  });
  return changes;
}

// One change of rights at a time: what another thread's has forgotten looks new.
std::mutex g_changing;

}  // namespace

hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size, hsa_amd_memory_type_t type,
                                        uint64_t flags, hsa_amd_vmem_alloc_handle_t* handle) {
  const hsa_status_t status = allocate_again_if_kept(
      [&] { return api().ext.hsa_amd_vmem_handle_create_fn(pool, size, type, flags, handle); });
  if (status == HSA_STATUS_SUCCESS && enabled()) {
    const Pool* known = tool()->agents.pool(pool.handle);
    const capture::PhysicalMemory memory{.device = known != nullptr ? known->device : capture::k_no_device,
                                         .is_foreign = known == nullptr};
    tool()->memory.mappings.add_handle(handle->handle, memory);
  }
  return status;
}

hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t handle) {
  if (enabled()) tool()->memory.mappings.release_handle(handle.handle);
  return api().ext.hsa_amd_vmem_handle_release_fn(handle);
}

hsa_status_t hsa_amd_vmem_import_shareable_handle(int dmabuf_fd, hsa_amd_vmem_alloc_handle_t* handle) {
  const hsa_status_t status = api().ext.hsa_amd_vmem_import_shareable_handle_fn(dmabuf_fd, handle);
  if (status == HSA_STATUS_SUCCESS && enabled()) tool()->memory.mappings.add_handle(handle->handle, {});
  return status;
}

hsa_status_t hsa_amd_vmem_map(void* va, size_t size, size_t in_offset, hsa_amd_vmem_alloc_handle_t memory_handle,
                              uint64_t flags) {
  const hsa_status_t status = api().ext.hsa_amd_vmem_map_fn(va, size, in_offset, memory_handle, flags);
  if (status == HSA_STATUS_SUCCESS && enabled()) {
    tool()->arguments.forget(address_of(va), size);
    tool()->memory.mappings.map(address_of(va), size, memory_handle.handle);
  }
  return status;
}

hsa_status_t hsa_amd_vmem_unmap(void* va, size_t size) {
  capture::Session::Call call;
  if (enabled()) {
    {
      const std::lock_guard not_while_forgotten(g_changing);
      tool()->memory.mappings.unmap(address_of(va), size);
    }
    call = tool()->snapshots.session().wait_until_idle();
  }
  return api().ext.hsa_amd_vmem_unmap_fn(va, size);
}

// Rights that a device has are changed as memory is unmapped: forgotten first, whatever the new ones are. The runtime may map
// the memory anew, and a later window would have it in its list. New rights need no wait.
hsa_status_t hsa_amd_vmem_set_access(void* va, size_t size, const hsa_amd_memory_access_desc_t* desc,
                                     size_t desc_cnt) {
  if (!enabled() || desc == nullptr) return api().ext.hsa_amd_vmem_set_access_fn(va, size, desc, desc_cnt);
  const std::lock_guard one_at_a_time(g_changing);
  capture::Session::Call call;
  capture::Mappings& mappings = tool()->memory.mappings;
  capture::Mappings::ByBase forgotten;
  if (changes_rights(va, size, desc, desc_cnt)) {
    forgotten = mappings.unmap(address_of(va), size);
    call = tool()->snapshots.session().wait_until_idle();
  }
  const hsa_status_t status = api().ext.hsa_amd_vmem_set_access_fn(va, size, desc, desc_cnt);
  mappings.put_back(forgotten);
  if (status == HSA_STATUS_SUCCESS && enabled()) record_rights(va, size, desc, desc_cnt);
  return status;
}

}  // namespace kerncap::hsa::hooks
