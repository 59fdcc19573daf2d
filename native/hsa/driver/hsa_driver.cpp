// Start of the HSA driver; its memory is in memory.cpp, code objects in code.cpp, dispatches in launch.cpp and scrub.cpp.
#include "hsa/driver/hsa_driver.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string_view>
#include <utility>

#include "core/hex.hpp"
#include "hsa/driver/loaded_code.hpp"

namespace kerncap::hsa {
namespace {

using core::Error;
using core::ErrorCode;
using core::hex;
using core::Result;

constexpr std::uint32_t k_queue_packets = 64;
constexpr std::uint64_t k_page_bytes = 4096;             // what rights are set for
constexpr std::uint64_t k_flush_bytes = 512ull << 20;   // more than any cache of a GPU holds
constexpr std::uint64_t k_most_watched_share = 8;        // of the machine's memory; a replay beside this one may do the same

// What ROCr tells of a memory fault, for people: where, and why as far as the GPU says.
std::string fault_text(std::uint64_t address, std::uint32_t reasons) {
  constexpr std::pair<std::uint32_t, const char*> k_words[] = {
      {HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT, "no memory is there"},
      {HSA_AMD_MEMORY_FAULT_READ_ONLY, "that memory may only be read"},
      {HSA_AMD_MEMORY_FAULT_NX, "code may not run there"},
      {HSA_AMD_MEMORY_FAULT_HOST_ONLY, "only the host may use that memory"},
      {HSA_AMD_MEMORY_FAULT_DRAMECC, "a memory error of the GPU (ECC)"},
      {HSA_AMD_MEMORY_FAULT_IMPRECISE, "the address is approximate"},
      {HSA_AMD_MEMORY_FAULT_SRAMECC, "a memory error inside the GPU (ECC)"},
      {HSA_AMD_MEMORY_FAULT_HANG, "the GPU was reset"},
  };
  std::string text = "the kernel accessed " + hex(address) + ", which is not allowed";
  for (const auto& [bit, words] : k_words) {
    if ((reasons & bit) != 0) text += std::string(": ") + words;
  }
  return text;
}

std::uint64_t watched_bytes(const replay::Plan& plan) {
  std::uint64_t bytes = 0;
  for (const replay::Region& region : plan.regions) bytes += region.bytes;
  return bytes;
}

std::uint64_t most_watched_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) /
         k_most_watched_share;
}

// Host memory that the GPU had at two addresses: without the driver's SVM each registration gives it another one. A replay
// would make two memories of it.
Result<void> registered_once(const replay::Plan& plan) {
  std::vector<const replay::Region*> registered;
  for (const replay::Region& region : plan.regions) {
    if (region.kind == replay::Kind::host_registered && region.host != 0) registered.push_back(&region);
  }
  std::sort(registered.begin(), registered.end(), [](const auto* a, const auto* b) { return a->host < b->host; });
  const replay::Region* last = nullptr;        // of those so far, the one that ends last
  for (const replay::Region* region : registered) {
    const bool overlaps = last != nullptr && region->host < last->host + last->bytes;
    if (overlaps && region->base - region->host != last->base - last->host) {
      return Error{ErrorCode::unsupported, "the program registered the host memory at " + hex(region->host) +
                                               " twice, and its GPU had that memory at two addresses: in " + hex(last->base) + "-" +
                                               hex(last->end()) + " and in " + hex(region->base) + "-" + hex(region->end())};
    }
    if (last == nullptr || last->host + last->bytes < region->host + region->bytes) last = region;
  }
  return {};
}

}  // namespace

std::string HsaDriver::fault() const {
  const std::lock_guard lock(m_fault_mutex);
  return m_fault;
}

void HsaDriver::note_fault(const std::string& text) {
  const std::lock_guard lock(m_fault_mutex);
  m_fault += (m_fault.empty() ? "" : "; ") + text;
}

// Only loads ROCr, which takes most of the time. It starts when the replay's words are there: they may set variables.
void HsaDriver::start_early(std::uint32_t, bool) { (void)open_runtime(); }

Result<void> HsaDriver::open(const replay::Plan& plan) {
  m_plan = &plan;
  const char* in_place = std::getenv("KERNCAP_REPLAY_IN_PLACE");
  m_reach_devices = in_place == nullptr || std::string_view(in_place) != "0";
  // What a kernel does at another time shows in these runs. A GPU of silicon has no such setting, and keeps its clock.
  ::setenv("KERNCAP_SOFTGPU_CLOCK", ("jumps:" + std::to_string(std::random_device()())).c_str(), 0);
  Result<Runtime> runtime = open_runtime();
  if (!runtime) return runtime.error();
  m_runtime = runtime.value();
  const hsa_status_t started = m_runtime.hsa_init();
  if (started != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "ROCr does not start", started);
  Result<Machine> machine = find_machine(m_runtime);
  if (!machine) return machine.error();
  m_machine = std::move(machine.value());
  if (plan.actual_device(plan.kernel_device) >= m_machine.devices.size()) {
    return Error{ErrorCode::unsupported, "there is no GPU " + std::to_string(plan.actual_device(plan.kernel_device)) +
                                             " here, only " + std::to_string(m_machine.devices.size())};
  }
  for (const replay::Region& region : plan.regions) {
    if (region.device != replay::k_no_device && plan.actual_device(region.device) >= m_machine.devices.size()) {
      return Error{ErrorCode::unsupported, "the capture holds memory of device " + std::to_string(region.device) +
                                               ", and there are " + std::to_string(m_machine.devices.size()) +
                                               " GPUs here"};
    }
  }
  m_device = &device_of(plan.kernel_device);
  if (architecture_of(m_device->isa) != architecture_of(plan.isa)) {
    return Error{ErrorCode::unsupported, "the capture is of a " + architecture_of(plan.isa) + ", and this GPU is a " +
                                             architecture_of(m_device->isa)};
  }
  if (Result<void> once = registered_once(plan); !once) return once;
  if (m_device->is_software()) ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // waits nap: else each takes 50 us more
  find_write_watch();
  m_guard = replay::Guard(plan, k_page_bytes, [](const replay::Region& region) { return !region.on_host(); });
  m_watches = m_reach_devices && m_device->is_software() && watched_bytes(plan) <= most_watched_bytes();
  m_opened = {m_device->name, m_device->isa, m_machine.runtime_version, {}, {}, m_device->peaks, m_device->is_software()};
  // The software GPU begins each kernel with other values anyway; tests want the kernels that do so on a GPU of silicon.
  const char* scrub = std::getenv("KERNCAP_REPLAY_SCRUB");
  m_scrub.is_wanted = scrub == nullptr ? !m_device->is_software() : std::string_view(scrub) != "0";
  if (scrub != nullptr && !m_scrub.is_wanted) {
    m_opened.without.push_back("kernels that overwrite LDS, registers and scratch memory did not run between runs: "
                               "KERNCAP_REPLAY_SCRUB=0 leaves them out");
  }
  if (m_wants_hip) {
    Result<std::unique_ptr<HipLauncher>> hip = HipLauncher::start(plan.actual_device(plan.kernel_device));
    if (!hip) return hip.error();
    m_hip = std::move(hip.value());
  }
  return make_queue();
}

Result<void> HsaDriver::make_queue() {
  hsa_status_t status = m_runtime.hsa_queue_create(
      m_device->agent, k_queue_packets,
      m_plan->cooperative ? HSA_QUEUE_TYPE_COOPERATIVE : HSA_QUEUE_TYPE_SINGLE,
      [](hsa_status_t why, hsa_queue_t*, void* self) {
        auto& driver = *static_cast<HsaDriver*>(self);
        driver.note_fault(runtime_error(driver.m_runtime, "the queue stopped", why).message);
      },
      this, UINT32_MAX, UINT32_MAX, &m_queue);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "creating a queue", status);
  m_runtime.hsa_amd_profiling_set_profiler_enabled(m_queue, 1);
  m_runtime.hsa_amd_register_system_event_handler(
      [](const hsa_amd_event_t* event, void* self) {
        if (event->event_type != HSA_AMD_GPU_MEMORY_FAULT_EVENT) return HSA_STATUS_ERROR;
        static_cast<HsaDriver*>(self)->note_fault(
            fault_text(event->memory_fault.virtual_address, event->memory_fault.fault_reason_mask));
        return HSA_STATUS_SUCCESS;
      },
      this);
  status = m_runtime.hsa_signal_create(1, 0, nullptr, &m_done);
  if (status == HSA_STATUS_SUCCESS) status = m_runtime.hsa_signal_create(1, 0, nullptr, &m_behind);
  if (status != HSA_STATUS_SUCCESS) return runtime_error(m_runtime, "creating a signal", status);
  return make_staging();
}

Result<void> HsaDriver::flush_cache() {
  if (m_flush == nullptr) {
    const Result<std::byte*> memory =
        allocate(*m_device, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, k_flush_bytes);
    if (!memory) return memory.error();
    m_flush = memory.value();
  }
  const hsa_status_t status = m_runtime.hsa_amd_memory_fill(m_flush, 0, k_flush_bytes / 4);
  return status == HSA_STATUS_SUCCESS ? Result<void>() : runtime_error(m_runtime, "flushing the caches", status);
}

}  // namespace kerncap::hsa

int main(int argc, char** argv) {
  kerncap::hsa::HsaDriver driver;
  return kerncap::replay::replay_main(argc, argv, driver);
}
