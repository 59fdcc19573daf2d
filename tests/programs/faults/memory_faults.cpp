// memory_faults CASE: one access that the GPU's page table forbids, by a packet processor or a copy engine. ROCr reports
// it once for each process, to the handler of system events, with the address.
#include <sys/mman.h>

#include <atomic>
#include <string_view>

#include "hsa_check.hpp"

namespace {

std::atomic<bool> g_reported{false};
std::uint64_t g_address = 0;
std::uint32_t g_reasons = 0;

hsa_status_t on_event(const hsa_amd_event_t* event, void*) {
  if (event->event_type != HSA_AMD_GPU_MEMORY_FAULT_EVENT) return HSA_STATUS_ERROR;
  g_address = event->memory_fault.virtual_address;
  g_reasons = event->memory_fault.fault_reason_mask;
  g_reported = true;
  return HSA_STATUS_SUCCESS;  // handled: do not abort
}

void* host_pages(std::size_t size_bytes) {
  void* pages = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) std::exit(1);
  std::memset(pages, 1, size_bytes);
  return pages;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::uint64_t k_nowhere = 0x123456789000;
  constexpr std::size_t k_bytes = 1 << 20;
  const std::string_view what = argc == 2 ? argv[1] : "";
  const Machine machine;
  Tally tally("memory_faults");
  HSA_OK(hsa_amd_register_system_event_handler(on_event, nullptr));
  hsa_agent_t gpu = machine.gpus[0].handle;
  const hsa_agent_t cpu = machine.cpus[0].handle;
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue));
  void* vram = nullptr;
  HSA_OK(hsa_amd_memory_pool_allocate(machine.gpus[0].coarse().handle, k_bytes, 0, &vram));

  const Signal done(1);
  std::uint64_t wanted = k_nowhere;
  hsa_barrier_and_packet_t barrier{};
  if (what == "completion-signal") {
    barrier.completion_signal.handle = k_nowhere;
    submit(queue, barrier, packet_header(HSA_PACKET_TYPE_BARRIER_AND, true), 0);
  } else if (what == "dependency") {
    barrier.dep_signal[2].handle = k_nowhere;
    barrier.completion_signal = done;
    wanted += 8;  // the signal's value
    submit(queue, barrier, packet_header(HSA_PACKET_TYPE_BARRIER_AND, true), 0);
  } else if (what == "copy-from-unregistered") {
    // Memory of this process, but nobody let the GPU into it.
    void* host = host_pages(k_bytes);
    wanted = reinterpret_cast<std::uint64_t>(host);
    HSA_OK(hsa_amd_memory_async_copy(vram, gpu, host, cpu, k_bytes, 0, nullptr, done));
  } else if (what == "copy-to-unregistered") {
    void* host = host_pages(k_bytes);
    wanted = reinterpret_cast<std::uint64_t>(host);
    HSA_OK(hsa_amd_memory_async_copy(host, cpu, vram, gpu, k_bytes, 0, nullptr, done));
  } else if (what == "copy-from-unmapped") {
    // Let in, and then taken away without a word to the driver.
    char* host = static_cast<char*>(host_pages(k_bytes));
    void* seen = nullptr;
    HSA_OK(hsa_amd_memory_lock(host, k_bytes, &gpu, 1, &seen));
    munmap(host + k_bytes / 2, k_bytes / 2);
    wanted = reinterpret_cast<std::uint64_t>(host);
    HSA_OK(hsa_amd_memory_async_copy(vram, gpu, seen, cpu, k_bytes, 0, nullptr, done));
  } else if (what == "copy-beyond-the-end") {
    void* host = nullptr;
    HSA_OK(hsa_amd_memory_pool_allocate(machine.cpus[0].fine().handle, 4 * k_bytes, 0, &host));
    HSA_OK(hsa_amd_agents_allow_access(1, &gpu, nullptr, host));
    void* reserved = nullptr;
    HSA_OK(hsa_amd_vmem_address_reserve(&reserved, 4 * k_bytes, 0x7d1000000000, 0));
    hsa_amd_vmem_alloc_handle_t memory;
    HSA_OK(hsa_amd_vmem_handle_create(machine.gpus[0].coarse().handle, 2 * k_bytes, MEMORY_TYPE_NONE, 0, &memory));
    HSA_OK(hsa_amd_vmem_map(reserved, 2 * k_bytes, 0, memory, 0));
    const hsa_amd_memory_access_desc_t access{HSA_ACCESS_PERMISSION_RW, gpu};
    HSA_OK(hsa_amd_vmem_set_access(reserved, 2 * k_bytes, &access, 1));
    wanted = reinterpret_cast<std::uint64_t>(reserved) + 2 * k_bytes;
    HSA_OK(hsa_amd_memory_async_copy(reserved, gpu, host, cpu, 3 * k_bytes, 0, nullptr, done));
  } else if (what == "copy-to-read-only") {
    void* host = nullptr;
    HSA_OK(hsa_amd_memory_pool_allocate(machine.cpus[0].fine().handle, 2 * k_bytes, 0, &host));
    HSA_OK(hsa_amd_agents_allow_access(1, &gpu, nullptr, host));
    void* reserved = nullptr;
    HSA_OK(hsa_amd_vmem_address_reserve(&reserved, 2 * k_bytes, 0x7d2000000000, 0));
    hsa_amd_vmem_alloc_handle_t memory;
    HSA_OK(hsa_amd_vmem_handle_create(machine.gpus[0].coarse().handle, 2 * k_bytes, MEMORY_TYPE_NONE, 0, &memory));
    HSA_OK(hsa_amd_vmem_map(reserved, 2 * k_bytes, 0, memory, 0));
    const hsa_amd_memory_access_desc_t access{HSA_ACCESS_PERMISSION_RO, gpu};
    HSA_OK(hsa_amd_vmem_set_access(reserved, 2 * k_bytes, &access, 1));
    wanted = reinterpret_cast<std::uint64_t>(reserved);
    HSA_OK(hsa_amd_memory_async_copy(reserved, gpu, host, cpu, k_bytes, 0, nullptr, done));
  } else {
    std::fprintf(stderr, "unknown case\n");
    return 2;
  }

  const Signal never(1);
  for (int i = 0; !g_reported && i < 60000; ++i)
    hsa_signal_wait_scacquire(never, HSA_SIGNAL_CONDITION_LT, 1, 1000000, HSA_WAIT_STATE_BLOCKED);
  tally.expect(g_reported, "reported", 0, 0, 1);
  const bool in_range = what == "copy-from-unmapped" ? g_address >= wanted && g_address < wanted + k_bytes : g_address == wanted;
  tally.expect(in_range, "address", 0, static_cast<double>(g_address), static_cast<double>(wanted));
  const std::uint32_t reason = what == "copy-to-read-only" ? HSA_AMD_MEMORY_FAULT_READ_ONLY : HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT;
  tally.equal("reason", 0, g_reasons, reason);
  tally.equal("the signal stays", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{1});
  // ROCr's shut-down does not expect mappings that are left, nor copies that never end.
  std::_Exit(tally.finish());
}
