// Another tool beside ours: makes every queue an intercept queue of its own and counts the kernels that it sees.
// Writes the count to the file that COUNTING_TOOL_FILE names, after each.
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include <hsa.h>
#include <hsa_api_trace.h>
#include <hsa_ext_amd.h>

namespace {

decltype(hsa_amd_queue_intercept_create)* g_intercept_create;
decltype(hsa_amd_queue_intercept_register)* g_intercept_register;
std::atomic<int> g_kernels{0};

void on_packets(const void* packets, std::uint64_t count, std::uint64_t, void*,
                hsa_amd_queue_intercept_packet_writer writer) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto* header = static_cast<const std::uint16_t*>(packets) + 32 * i;
    if ((*header & 0xFF) == HSA_PACKET_TYPE_KERNEL_DISPATCH) ++g_kernels;
  }
  if (std::FILE* file = std::fopen(std::getenv("COUNTING_TOOL_FILE"), "w")) {
    std::fprintf(file, "%d\n", g_kernels.load());
    std::fclose(file);
  }
  writer(packets, count);
}

hsa_status_t queue_create(hsa_agent_t agent, std::uint32_t size, hsa_queue_type32_t type,
                          void (*callback)(hsa_status_t, hsa_queue_t*, void*), void* data, std::uint32_t private_bytes,
                          std::uint32_t group_bytes, hsa_queue_t** queue) {
  const hsa_status_t status =
      g_intercept_create(agent, size, type, callback, data, private_bytes, group_bytes, queue);
  if (status == HSA_STATUS_SUCCESS) g_intercept_register(*queue, on_packets, nullptr);
  return status;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool OnLoad(HsaApiTable* table, std::uint64_t, std::uint64_t,
                                                              const char* const*) {
  g_intercept_create = table->amd_ext_->hsa_amd_queue_intercept_create_fn;
  g_intercept_register = table->amd_ext_->hsa_amd_queue_intercept_register_fn;
  table->core_->hsa_queue_create_fn = queue_create;
  return true;
}
extern "C" __attribute__((visibility("default"))) void OnUnload() {}
