// Before each run of a replay, kernels of ours overwrite what the last run left on the compute units. Each is waited for, and none
// of it is in a time. docs/decisions/0092-scrubbing-amd-gpus.md
#include <algorithm>

#include "hsa/driver/hsa_driver.hpp"
#include "hsa/driver/loaded_code.hpp"

namespace kerncap::hsa {
namespace {

using core::Error;
using core::Result;

// As in kernels/scrub.cl.
struct Arguments {
  std::uint32_t lds;                         // begins at 0
  std::uint32_t words;
  replay::ScrubValues values;
};
constexpr std::uint32_t k_lds_work_items = 256;
constexpr std::uint32_t k_wave_work_items = 64;

// At most 6 waves with all registers of a work-item fit into a compute unit (RDNA 3); 4 into one of CDNA.
constexpr std::uint32_t k_register_waves_per_unit = 8;
constexpr std::uint32_t k_most_scratch_bytes = 65536;   // of each work-item

replay::Launch line_of(std::uint64_t work_groups, std::uint32_t work_items, std::uint32_t lds_bytes = 0) {
  return {{work_groups * work_items, 1, 1}, {work_items, 1, 1}, lds_bytes, {}, false};
}

replay::Launch launch_like(const LoadedCode& code) {
  replay::Launch launch = line_of(0, 0);
  std::copy_n(code.last_grid, 3, launch.grid);
  std::copy_n(code.last_block, 3, launch.block);
  return launch;
}

// What ROCr can still give out of a device's memory. Where it does not say so, nothing is known to be too large.
std::uint64_t free_bytes(const Runtime& runtime, hsa_agent_t agent) {
  std::uint64_t bytes = 0;
  const auto attribute = static_cast<hsa_agent_info_t>(HSA_AMD_AGENT_INFO_MEMORY_AVAIL);
  return runtime.hsa_agent_get_info(agent, attribute, &bytes) == HSA_STATUS_SUCCESS ? bytes : UINT64_MAX;
}

// 0 for none.
std::uint64_t waves_of(const replay::Launch& launch) {
  const std::uint64_t work_items = std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  return work_items == 0 ? 0 : launch.blocks() * ((work_items + k_wave_work_items - 1) / k_wave_work_items);
}

}  // namespace

bool HsaDriver::can_scrub() {
  if (m_scrub.is_wanted && m_scrub.waves == nullptr) {
    m_scrub.waves = load_own("scrub", "kerncap_scrub_waves");
    m_scrub.lds = load_own("scrub", "kerncap_scrub_lds");
    m_scrub.registers = load_own("scrub", "kerncap_scrub_registers");
    m_scrub.is_wanted = m_scrub.waves != nullptr && m_scrub.lds != nullptr && m_scrub.registers != nullptr;
    if (!m_scrub.is_wanted) {
      m_opened.without.push_back("LDS, registers and scratch memory were not overwritten between runs: this build of "
                                 "kerncap-stages has no kernel for " + architecture_of(m_device->isa) + " that does so");
    }
  }
  return m_scrub.is_wanted;
}

Result<void> HsaDriver::scrub(const replay::Code& code, bool stays_warm) {
  if (!can_scrub()) return {};
  const replay::ScrubValues values = m_scrub.turns.next();
  const auto run = [&](const replay::Code& kernel, replay::Launch launch, std::uint32_t private_bytes,
                       std::uint32_t words) -> Result<void> {
    const Arguments arguments{0, words, values};
    launch.kernarg = std::as_bytes(std::span(&arguments, 1));
    const auto& loaded = static_cast<const LoadedCode&>(kernel);
    const Result<replay::Timing> done = launch_packet(loaded, launch, std::max(loaded.private_bytes, private_bytes));
    if (done) return {};
    return Error{done.error().code, "overwriting LDS, registers and scratch memory before a run (KERNCAP_REPLAY_SCRUB=0 leaves "
                                    "that out): " + done.error().message};
  };
  // A queue has scratch memory of its own, which goes through a cache. That of HIP's queue is not reached from this one.
  const auto& judged = static_cast<const LoadedCode&>(code);
  const bool fills_scratch = !stays_warm && m_hip == nullptr;
  const std::uint32_t private_bytes = fills_scratch ? std::max(judged.private_bytes, m_plan->private_bytes) : 0;
  const std::uint32_t words = std::min(private_bytes, k_most_scratch_bytes) / 4;
  const std::uint64_t units = m_device->compute_units;
  const std::uint64_t most_waves = units * m_device->waves_per_unit;
  // ROCr ends a queue whose dispatch needs more scratch memory than is free.
  if (private_bytes > m_scrub.full_private_bytes && m_scrub.has_room) {
    m_scrub.has_room = most_waves * k_wave_work_items * private_bytes <= free_bytes(m_runtime, m_device->agent);
    if (m_scrub.has_room) {
      m_scrub.full_private_bytes = private_bytes;
    } else {
      m_opened.without.push_back("between runs only the scratch memory of the kernel's own grid was overwritten: the GPU has no "
                                 "room for that of all its waves");
    }
  }
  const bool fills_all = private_bytes <= m_scrub.full_private_bytes;
  const std::uint32_t all_bytes = std::min(private_bytes, m_scrub.full_private_bytes);
  Result<void> done = run(*m_scrub.waves, line_of(most_waves, k_wave_work_items), all_bytes, std::min(words, all_bytes / 4));
  // Where that is much memory, ROCr gives each dispatch only what its own waves need: memory that another shape does not get.
  const replay::Launch last = launch_like(judged);
  if (done && words != 0 && waves_of(last) != 0 && (!fills_all || waves_of(last) < most_waves)) {
    done = run(*m_scrub.waves, last, private_bytes, words);
  }
  const std::uint32_t lds_bytes = m_device->work_group_lds_bytes;
  if (done) done = run(*m_scrub.lds, line_of(units, k_lds_work_items, lds_bytes), 0, lds_bytes / 4);
  if (done) done = run(*m_scrub.registers, line_of(units * k_register_waves_per_unit, k_wave_work_items), 0, 0);
  return done;
}

}  // namespace kerncap::hsa
