// Follows hsa_amd_vmem_*: physical handles, their mappings and the devices that may use them.
#include <vector>

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

// What the runtime says of those devices after a change that failed.
std::vector<hsa_amd_memory_access_desc_t> actual_rights(void* va, const hsa_amd_memory_access_desc_t* asked,
                                                        std::size_t count) {
  std::vector<hsa_amd_memory_access_desc_t> rights(asked, asked + count);
  for (hsa_amd_memory_access_desc_t& each : rights) {
    if (api().ext.hsa_amd_vmem_get_access_fn(va, &each.permissions, each.agent_handle) != HSA_STATUS_SUCCESS) {
      each.permissions = HSA_ACCESS_PERMISSION_NONE;
    }
  }
  return rights;
}
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
    tool()->memory.mappings.unmap(address_of(va), size);
    call = tool()->snapshots.session().wait_until_idle();
  }
  return api().ext.hsa_amd_vmem_unmap_fn(va, size);
}

// Rights that a device has are changed as memory is unmapped; new ones need no wait.
hsa_status_t hsa_amd_vmem_set_access(void* va, size_t size, const hsa_amd_memory_access_desc_t* desc,
                                     size_t desc_cnt) {
  capture::Session::Call call;
  const bool changes = enabled() && changes_rights(va, size, desc, desc_cnt);
  if (changes) {
    record_rights(va, size, desc, desc_cnt);
    call = tool()->snapshots.session().wait_until_idle();
  }
  const hsa_status_t status = api().ext.hsa_amd_vmem_set_access_fn(va, size, desc, desc_cnt);
  if (status == HSA_STATUS_SUCCESS && enabled()) {
    record_rights(va, size, desc, desc_cnt);
  } else if (changes) {
    record_rights(va, size, actual_rights(va, desc, desc_cnt).data(), desc_cnt);
  }
  return status;
}

}  // namespace kerncap::hsa::hooks
