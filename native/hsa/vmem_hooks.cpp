// Follows hsa_amd_vmem_*: physical handles, their mappings and the devices that may use them.
#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa::hooks {

namespace {
std::uint64_t address_of(const void* pointer) noexcept { return reinterpret_cast<std::uint64_t>(pointer); }
}  // namespace

hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size, hsa_amd_memory_type_t type,
                                        uint64_t flags, hsa_amd_vmem_alloc_handle_t* handle) {
  const hsa_status_t status = api().ext.hsa_amd_vmem_handle_create_fn(pool, size, type, flags, handle);
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

hsa_status_t hsa_amd_vmem_set_access(void* va, size_t size, const hsa_amd_memory_access_desc_t* desc,
                                     size_t desc_cnt) {
  const hsa_status_t status = api().ext.hsa_amd_vmem_set_access_fn(va, size, desc, desc_cnt);
  if (status != HSA_STATUS_SUCCESS || !enabled()) return status;
  for (size_t i = 0; i < desc_cnt; ++i) {
    const std::uint32_t device = tool()->agents.index_of(desc[i].agent_handle);
    const hsa_access_permission_t right = desc[i].permissions;
    const bool readable = right == HSA_ACCESS_PERMISSION_RO || right == HSA_ACCESS_PERMISSION_RW;
    const bool writable = right == HSA_ACCESS_PERMISSION_WO || right == HSA_ACCESS_PERMISSION_RW;
    if (device < 64) tool()->memory.mappings.set_access(address_of(va), size, device, readable, writable);
  }
  return status;
}

}  // namespace kerncap::hsa::hooks
