// Makes the process fit for another replay: nothing of the last one stays on the device or at its addresses. Memory that is
// allocated again, of the device or the host, in a module or local, holds nothing of what was there (H100, driver 580.159).
// No call gives registers and shared memory back: scrub.hpp overwrites what runs left there in front of each run.
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "cuda/driver/cuda_driver.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr CUlimit k_limits[] = {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_PERSISTING_L2_CACHE_SIZE};
// Other processes use the device, too, and the driver keeps some of what it was asked for.
constexpr std::size_t k_most_device_growth = std::size_t{1} << 30;
constexpr std::uint64_t k_most_own_growth = std::uint64_t{256} << 20;

std::uint64_t own_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  file >> pages >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// The first of several calls that fails.
class Calls {
 public:
  explicit Calls(const char* what) : m_what(what) {}
  void operator()(CUresult status) {
    if (m_done) m_done = checked(m_what, status);
  }
  [[nodiscard]] Result<void> done() const { return m_done; }

 private:
  const char* m_what;
  Result<void> m_done;
};

}  // namespace

Result<void> CudaDriver::note_start() {
  if (m_start) return {};
  Start start{m_device, 0, {}};
  std::size_t total = 0;
  Calls asked("asking for the context's limits");
  asked(driver().cuMemGetInfo_v2(&start.free_bytes, &total));
  for (const CUlimit limit : k_limits) {
    std::size_t bytes = 0;
    if (driver().cuCtxGetLimit(&bytes, limit) == CUDA_SUCCESS) start.limits[limit] = bytes;  // not all devices have all
  }
  m_start = std::move(start);
  return asked.done();
}

Result<void> CudaDriver::give_back() {
  if (!m_start || m_start->device != m_device || m_has_peers) {
    return Error{ErrorCode::unsupported, "it used several devices"};
  }
  // Code on a device that reaches all memory of the process could change the process itself.
  if (device_attribute(m_device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0) {
    return Error{ErrorCode::unsupported, "its device reaches all memory of the process"};
  }
  // A fault that was told as a result has ruined the context: this fails then.
  Result<void> done = checked("waiting for the device", driver().cuCtxSynchronize());
  if (done) done = free_memory();
  if (done) done = unmap_memory();
  if (done) done = forget_runs();
  if (done) done = look_for_leaks();
  return done;
}

Result<void> CudaDriver::free_memory() {
  if (Result<void> freed = m_changed.give_back(); !freed) return freed;
  if (Result<void> freed = m_scrub.give_back(); !freed) return freed;
  Calls gone("giving memory back");
  for (const CUmodule module : m_modules) gone(driver().cuModuleUnload(module));
  for (const Saved& saved : m_saved) gone(driver().cuMemFree_v2(saved.copy));
  for (const Remembered& remembered : m_remembered) gone(driver().cuMemFree_v2(remembered.copy));
  if (m_flush != 0) gone(driver().cuMemFree_v2(m_flush));
  for (const Staging& staging : m_staging) gone(driver().cuEventDestroy_v2(staging.done));
  if (!m_staging.empty()) gone(driver().cuMemFreeHost(m_staging.front().memory));  // one piece for all
  if (m_before != nullptr) gone(driver().cuEventDestroy_v2(m_before));
  if (m_after != nullptr) gone(driver().cuEventDestroy_v2(m_after));
  if (m_stream != nullptr) gone(driver().cuStreamDestroy_v2(m_stream));
  m_modules.clear();
  m_saved.clear();
  m_remembered.clear();
  m_flush = 0;
  m_staging.clear();
  m_before = m_after = nullptr;
  m_stream = nullptr;
  return gone.done();
}

Result<void> CudaDriver::unmap_memory() {
  Calls gone("giving addresses back");
  for (const Reservation& mapping : m_mappings) gone(driver().cuMemUnmap(mapping.base, mapping.bytes));
  for (const CUmemGenericAllocationHandle handle : m_handles) gone(driver().cuMemRelease(handle));
  for (const Reservation& range : m_reservations) gone(driver().cuMemAddressFree(range.base, range.bytes));
  for (const Reservation& block : m_managed) gone(driver().cuMemFree_v2(block.base));
  for (const Reservation& pinned : m_pinned) {
    void* memory = reinterpret_cast<void*>(pinned.base);
    gone(driver().cuMemHostUnregister(memory));
    ::munmap(memory, pinned.bytes);
  }
  for (const Absent& absent : m_absent) ::munmap(absent.shadow, absent.range.bytes);
  m_mappings.clear();
  m_handles.clear();
  m_reservations.clear();
  m_managed.clear();
  m_pinned.clear();
  m_absent.clear();
  m_mapped.clear();
  m_pieces.clear();
  return gone.done();
}

// What the plan said, and what stays in the context when all memory is gone.
Result<void> CudaDriver::forget_runs() {
  m_plan = nullptr;
  m_settings = {};
  m_opened = {};
  m_slack.clear();
  m_guard = {};
  m_guarded.clear();
  m_variables.clear();
  m_launched.clear();
  m_local_bytes = 0;
  m_may_launch = false;
  m_crowded_out = false;
  Calls reset("resetting the context");
  // Local memory is the context's, and has what work-items left there. With another limit there is other memory.
  if (const auto stack = m_start->limits.find(CU_LIMIT_STACK_SIZE); stack != m_start->limits.end()) {
    reset(driver().cuCtxSetLimit(stack->first, 2 * stack->second));
  }
  for (const auto& [limit, bytes] : m_start->limits) {
    std::size_t now = 0;
    reset(driver().cuCtxGetLimit(&now, limit));
    if (now != bytes) reset(driver().cuCtxSetLimit(limit, bytes));
  }
  if (driver().cuCtxResetPersistingL2Cache != nullptr) reset(driver().cuCtxResetPersistingL2Cache());
  return reset.done();
}

Result<void> CudaDriver::look_for_leaks() {
  std::size_t free = 0;
  std::size_t total = 0;
  if (Result<void> asked = checked("asking for free memory", driver().cuMemGetInfo_v2(&free, &total)); !asked) return asked;
  if (free + k_most_device_growth < m_start->free_bytes) return Error{ErrorCode::device, "the device has less free memory now"};
  const std::uint64_t own = own_bytes();
  if (m_start->own_bytes == 0) m_start->own_bytes = own;
  if (own > m_start->own_bytes + k_most_own_growth) return Error{ErrorCode::device, "the process has grown"};
  return {};
}

}  // namespace kerncap::cuda
