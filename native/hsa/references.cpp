// Follows the program's references to the runtime: with the last one go our signals, queues and memory. OnUnload alone
// comes too late for that, since ROCr 7.2 refuses calls from there, and rocprofiler-register does not call it.
#include <mutex>

#include "hsa/api.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

// Counts as the runtime does: one call after the other. Recursive, since the runtime calls other tools from within both
// calls, and these may call back. Never destroyed: HIP shuts the runtime down behind our static destructors.
std::recursive_mutex& g_mutex = *new std::recursive_mutex();

}  // namespace

void end() noexcept {
  if (!enabled()) return;
  tool()->enabled.store(false, std::memory_order_seq_cst);
  tool()->snapshots.session().begin_end();
  tool()->channel->hurry(true);
  tool()->queues.end();
  tool()->profiler.end();
  tool()->snapshots.end();
  tool()->gone.store(true, std::memory_order_seq_cst);
}

namespace hooks {

hsa_status_t hsa_init() {
  const std::lock_guard lock(g_mutex);
  Tool* const known = tool();
  const hsa_status_t status = api().core.hsa_init_fn();
  // A runtime that starts anew calls OnLoad, which makes another tool: that one has counted this call.
  if (status == HSA_STATUS_SUCCESS) ++known->references;
  return status;
}

hsa_status_t hsa_shut_down() {
  const std::lock_guard lock(g_mutex);
  if (--tool()->references == 0) end();
  return api().core.hsa_shut_down_fn();
}

}  // namespace hooks
}  // namespace kerncap::hsa
