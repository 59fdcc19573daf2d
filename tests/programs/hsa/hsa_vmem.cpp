// Virtual memory at addresses of our choice: reserve, create, map, set access, use, map elsewhere, share, free.
#include <sys/mman.h>
#include <unistd.h>

#include "hsa_check.hpp"

namespace {

constexpr std::size_t k_bytes = std::size_t{4} << 20;

void copy(const Machine& machine, void* to, const void* from, std::size_t size_bytes) {
  const Signal done(1);
  const hsa_agent_t gpu = machine.gpus[0].handle;
  HSA_OK(hsa_amd_memory_async_copy(to, gpu, from, gpu, size_bytes, 0, nullptr, done));
  done.wait("a copy");
}

}  // namespace

int main() {
  const Machine machine;
  Tally tally("hsa_vmem");
  const Agent& gpu = machine.gpus[0];
  bool supported = false;
  HSA_OK(hsa_system_get_info(HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED, &supported));
  tally.expect(supported, "supported", 0, supported, 1);

  // Two host buffers that the GPU can read and write, as the other end of the copies.
  void *source = nullptr, *sink = nullptr;
  for (void** buffer : {&source, &sink}) {
    HSA_OK(hsa_amd_memory_pool_allocate(machine.cpus[0].fine().handle, k_bytes, 0, buffer));
    HSA_OK(hsa_amd_agents_allow_access(1, &gpu.handle, nullptr, *buffer));
  }
  std::vector<unsigned> pattern(k_bytes / 4);
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<unsigned>(i * 2654435761u);
  std::memcpy(source, pattern.data(), k_bytes);

  for (const std::uintptr_t wanted : {0x7e5400000000u, 0x7d0012200000u, 0x200000000000u}) {
    void* address = nullptr;
    HSA_OK(hsa_amd_vmem_address_reserve(&address, k_bytes, wanted, 0));
    tally.expect(reinterpret_cast<std::uintptr_t>(address) == wanted, "address", wanted,
                 static_cast<double>(reinterpret_cast<std::uintptr_t>(address)), static_cast<double>(wanted));
    hsa_amd_vmem_alloc_handle_t memory;
    HSA_OK(hsa_amd_vmem_handle_create(gpu.coarse().handle, k_bytes, MEMORY_TYPE_NONE, 0, &memory));
    HSA_OK(hsa_amd_vmem_map(address, k_bytes, 0, memory, 0));
    const hsa_amd_memory_access_desc_t access{HSA_ACCESS_PERMISSION_RW, gpu.handle};
    HSA_OK(hsa_amd_vmem_set_access(address, k_bytes, &access, 1));
    hsa_access_permission_t permission = HSA_ACCESS_PERMISSION_NONE;
    HSA_OK(hsa_amd_vmem_get_access(address, &permission, gpu.handle));
    tally.equal("permission", 0, static_cast<int>(permission), static_cast<int>(HSA_ACCESS_PERMISSION_RW));

    copy(machine, address, source, k_bytes);
    std::memset(sink, 0, k_bytes);
    copy(machine, sink, address, k_bytes);
    tally.expect(std::memcmp(sink, pattern.data(), k_bytes) == 0, "content", wanted, 0, 1);

    // The same memory at another address, after it left the first: the content belongs to the handle.
    HSA_OK(hsa_amd_vmem_unmap(address, k_bytes));
    void* elsewhere = nullptr;
    HSA_OK(hsa_amd_vmem_address_reserve(&elsewhere, k_bytes, wanted + (std::uintptr_t{1} << 30), 0));
    HSA_OK(hsa_amd_vmem_map(elsewhere, k_bytes, 0, memory, 0));
    HSA_OK(hsa_amd_vmem_set_access(elsewhere, k_bytes, &access, 1));
    std::memset(sink, 0, k_bytes);
    copy(machine, sink, elsewhere, k_bytes);
    tally.expect(std::memcmp(sink, pattern.data(), k_bytes) == 0, "content elsewhere", wanted, 0, 1);

    // Shared by a file descriptor and mapped a second time.
    int shared = -1;
    HSA_OK(hsa_amd_vmem_export_shareable_handle(&shared, memory, 0));
    hsa_amd_vmem_alloc_handle_t imported;
    HSA_OK(hsa_amd_vmem_import_shareable_handle(shared, &imported));
    HSA_OK(hsa_amd_vmem_map(address, k_bytes, 0, imported, 0));
    HSA_OK(hsa_amd_vmem_set_access(address, k_bytes, &access, 1));
    std::memset(sink, 0, k_bytes);
    copy(machine, sink, address, k_bytes);
    tally.expect(std::memcmp(sink, pattern.data(), k_bytes) == 0, "content shared", wanted, 0, 1);
    close(shared);

    for (void* mapped : {address, elsewhere}) {
      HSA_OK(hsa_amd_vmem_unmap(mapped, k_bytes));
      HSA_OK(hsa_amd_vmem_address_free(mapped, k_bytes));
    }
    HSA_OK(hsa_amd_vmem_handle_release(imported));
    HSA_OK(hsa_amd_vmem_handle_release(memory));
  }

  // An address that is taken is not given; another one is.
  void* taken = mmap(nullptr, k_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* address = nullptr;
  HSA_OK(hsa_amd_vmem_address_reserve(&address, k_bytes, reinterpret_cast<std::uint64_t>(taken), 0));
  tally.expect(address != taken, "a taken address", 0, 0, 1);
  HSA_OK(hsa_amd_vmem_address_free(address, k_bytes));
  munmap(taken, k_bytes);
  for (void* buffer : {source, sink}) HSA_OK(hsa_amd_memory_pool_free(buffer));
  return tally.finish();
}
