// A tool that writes down what reaches the device, to the file that PROBE_TOOL_FILE names. For each kernel: the weaker
// of its two fence scopes ("scope 2" is the system's), and what the runtime says of each address in
// PROBE_TOOL_ADDRESSES ("memory ADDRESS TYPE on_host", numbers of hsa_amd_pointer_type_t).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <hsa.h>
#include <hsa_api_trace.h>
#include <hsa_ext_amd.h>

namespace {

CoreApiTable g_core;
AmdExtTable g_ext;

void look_at_memory(std::FILE* file) {
  const char* rest = std::getenv("PROBE_TOOL_ADDRESSES");
  char* next = nullptr;
  for (; rest != nullptr && *rest != '\0'; rest = next) {
    const auto address = std::strtoull(rest, &next, 16);
    if (next == rest) return;
    hsa_amd_pointer_info_t info{};
    info.size = sizeof info;
    if (g_ext.hsa_amd_pointer_info_fn(reinterpret_cast<void*>(address), &info, nullptr, nullptr, nullptr) !=
        HSA_STATUS_SUCCESS) {
      continue;
    }
    hsa_device_type_t owner = HSA_DEVICE_TYPE_GPU;
    g_core.hsa_agent_get_info_fn(info.agentOwner, HSA_AGENT_INFO_DEVICE, &owner);
    std::fprintf(file, "memory %llx %d %d\n", address, static_cast<int>(info.type), owner == HSA_DEVICE_TYPE_CPU);
  }
}

void on_packets(const void* packets, std::uint64_t count, std::uint64_t, void*,
                hsa_amd_queue_intercept_packet_writer writer) {
  if (std::FILE* file = std::fopen(std::getenv("PROBE_TOOL_FILE"), "a")) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint16_t header = *(static_cast<const std::uint16_t*>(packets) + 32 * i);
      if ((header & 0xFF) != HSA_PACKET_TYPE_KERNEL_DISPATCH) continue;
      std::fprintf(file, "scope %d\n", std::min(header >> HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE & 3,
                                                header >> HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE & 3));
      look_at_memory(file);
    }
    std::fclose(file);
  }
  writer(packets, count);
}

hsa_status_t queue_create(hsa_agent_t agent, std::uint32_t size, hsa_queue_type32_t type,
                          void (*callback)(hsa_status_t, hsa_queue_t*, void*), void* data, std::uint32_t private_bytes,
                          std::uint32_t group_bytes, hsa_queue_t** queue) {
  const hsa_status_t status = g_ext.hsa_amd_queue_intercept_create_fn(agent, size, type, callback, data, private_bytes,
                                                                      group_bytes, queue);
  if (status == HSA_STATUS_SUCCESS) g_ext.hsa_amd_queue_intercept_register_fn(*queue, on_packets, nullptr);
  return status;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool OnLoad(HsaApiTable* table, std::uint64_t, std::uint64_t,
                                                              const char* const*) {
  // Only members that both ROCr versions have are used.
  g_core.hsa_agent_get_info_fn = table->core_->hsa_agent_get_info_fn;
  g_ext.hsa_amd_pointer_info_fn = table->amd_ext_->hsa_amd_pointer_info_fn;
  g_ext.hsa_amd_queue_intercept_create_fn = table->amd_ext_->hsa_amd_queue_intercept_create_fn;
  g_ext.hsa_amd_queue_intercept_register_fn = table->amd_ext_->hsa_amd_queue_intercept_register_fn;
  table->core_->hsa_queue_create_fn = queue_create;
  return true;
}
extern "C" __attribute__((visibility("default"))) void OnUnload() {}
