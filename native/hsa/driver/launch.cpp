// Dispatches of the HSA driver: a packet of its own, or HIP's launch.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "hsa/driver/hsa_driver.hpp"
#include "hsa/driver/loaded_code.hpp"
#include "hsa/embedded_kernels.hpp"
#include "hsa/packets.hpp"

namespace kerncap::hsa {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::size_t k_least_kernarg_bytes = 4096;

}  // namespace

// The software GPU is in this process.
void HsaDriver::choose_order(std::optional<std::uint64_t> seed) {
  static const auto choose = reinterpret_cast<void (*)(const std::uint64_t*)>(::dlsym(RTLD_DEFAULT, "kerncap_softgpu_choose_order"));
  if (choose != nullptr) choose(seed ? &*seed : nullptr);
}

// Before memory is remembered or saved.
void HsaDriver::find_write_watch() {
  if (!m_device->is_software()) return;
  const auto function = reinterpret_cast<core::WriteWatch::Function>(::dlsym(RTLD_DEFAULT, core::WriteWatch::k_function));
  if (function == nullptr || !function(nullptr)) return;
  m_watch_writes = function;
  m_remembered.copy_before_writes();
  m_saved_in_place.copy_before_writes();
}

void HsaDriver::note_run() {
  if (m_watch_writes != nullptr) {
    (void)m_watch_writes(&m_write_watch);
    return;
  }
  m_remembered.note_run();
  m_saved_in_place.note_run();
}

Result<replay::Timing> HsaDriver::launch(replay::Code& code, const replay::Launch& captured) {
  if (Result<void> settled = settle(); !settled) return settled.error();
  note_run();
  auto& loaded = static_cast<LoadedCode&>(code);
  std::copy_n(captured.grid, 3, loaded.last_grid);
  std::copy_n(captured.block, 3, loaded.last_block);
  const std::uint64_t queue = m_hip == nullptr ? reinterpret_cast<std::uint64_t>(m_queue) : 0;
  const std::vector<std::byte> kernarg = m_hidden.rebuild(*m_plan, captured, queue);
  replay::Launch launch = captured;
  launch.kernarg = kernarg;
  if (m_hip == nullptr) {
    if (m_plan->cooperative) {
      if (Result<void> ready = prepare_grid_barrier(launch); !ready) return ready.error();
    }
    return launch_packet(loaded, launch, std::max(loaded.private_bytes, m_plan->private_bytes));
  }
  Result<replay::Timing> timing = m_hip->launch(loaded.hip_module, *m_plan, launch, [this] { return !fault().empty(); });
  if (const std::string why = fault(); !why.empty()) return Error{ErrorCode::device, why};
  return timing;
}

Result<replay::Timing> HsaDriver::launch_packet(const LoadedCode& loaded, const replay::Launch& launch,
                                                std::uint32_t private_bytes) {
  const std::size_t needed = std::max<std::size_t>({k_least_kernarg_bytes, launch.kernarg.size(), loaded.kernarg_bytes});
  if (needed > m_kernarg_room) {
    const Result<std::byte*> memory =
        allocate(m_machine.host, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT, needed);
    if (!memory) return memory.error();
    m_kernarg = memory.value();
    m_kernarg_room = needed;
  }
  std::memset(m_kernarg, 0, m_kernarg_room);
  std::copy(launch.kernarg.begin(), launch.kernarg.end(), m_kernarg);
  m_runtime.hsa_signal_store_relaxed(m_done, 1);
  hsa_kernel_dispatch_packet_t packet{};
  packet.header = static_cast<std::uint16_t>((HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE) |
                                             k_barrier_bit | k_system_scopes);
  packet.setup = 3 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
  // Of 32 bits as captured, and as the stage lets through.
  packet.grid_size_x = static_cast<std::uint32_t>(launch.grid[0]);
  packet.grid_size_y = static_cast<std::uint32_t>(launch.grid[1]);
  packet.grid_size_z = static_cast<std::uint32_t>(launch.grid[2]);
  packet.workgroup_size_x = static_cast<std::uint16_t>(launch.block[0]);
  packet.workgroup_size_y = static_cast<std::uint16_t>(launch.block[1]);
  packet.workgroup_size_z = static_cast<std::uint16_t>(launch.block[2]);
  packet.group_segment_size = loaded.static_lds_bytes + launch.dynamic_lds_bytes;
  packet.private_segment_size = private_bytes;
  packet.kernel_object = loaded.kernel_object;
  packet.kernarg_address = m_kernarg;
  packet.completion_signal = m_done;
  submit(to_packet(packet));
  if (Result<void> done = wait_for_kernel(); !done) return done.error();
  if (const std::string why = fault(); !why.empty()) return Error{ErrorCode::device, why};
  hsa_amd_profiling_dispatch_time_t time{};
  m_runtime.hsa_amd_profiling_get_dispatch_time(m_device->agent, m_done, &time);
  return replay::Timing{time.end - time.start};
}

void HsaDriver::submit(const Packet& packet) {
  const std::uint64_t index = m_runtime.hsa_queue_add_write_index_relaxed(m_queue, 1);
  publish(static_cast<Packet*>(m_queue->base_address)[index & (m_queue->size - 1)], packet);
  m_runtime.hsa_signal_store_screlease(m_queue->doorbell_signal, static_cast<hsa_signal_value_t>(index));
}

// A kernel finds its packet, and the packet's signal, by its dispatch pointer: it can tell that it has ended, and go on. A packet
// that comes into the queue only then, and waits for the kernel, tells the truth, and so do the time stamps behind it. The packet
// processor takes one from the kernel's signal whatever the kernel wrote there.
Result<void> HsaDriver::wait_for_kernel() {
  Result<void> done = wait_for(m_done, nullptr);
  if (!done) return done;
  m_runtime.hsa_signal_store_relaxed(m_behind, 1);
  submit(barrier({}, m_behind));
  done = wait_for(m_behind, "the packet behind the dispatch");
  if (!done || m_runtime.hsa_signal_load_scacquire(m_done) == 0) return done;
  return Error{ErrorCode::device, "the kernel wrote to the completion signal of its own dispatch: it tells that it has ended "
                                  "before it has"};
}

// HIP does the same before each cooperative launch. Code that grid.sync() compiles to counts one arrival for each work-group.
Result<void> HsaDriver::prepare_grid_barrier(const replay::Launch& launch) {
  if (m_grid_barrier == nullptr) {
    const std::vector<EmbeddedKernel> kernels = embedded_kernels("grid_barrier", m_device->isa);
    if (kernels.empty() && !embedded_kernels("copy", m_device->isa).empty()) return {};  // the target has no such barrier
    m_grid_barrier = load_own("grid_barrier", "kerncap_grid_barrier");
    if (m_grid_barrier == nullptr) {
      return Error{ErrorCode::unsupported, "the dispatch was a cooperative one, and this build of kerncap-stages has no "
                                           "kernel for " + architecture_of(m_device->isa) +
                                               " that makes the barrier of its grid ready: try --hip-launch"};
    }
  }
  const auto value = static_cast<std::uint32_t>(launch.blocks() - 1);
  const replay::Launch ready{{1, 1, 1}, {1, 1, 1}, 0, std::as_bytes(std::span(&value, 1)), false};
  const auto& barrier = static_cast<const LoadedCode&>(*m_grid_barrier);
  const Result<replay::Timing> done = launch_packet(barrier, ready, barrier.private_bytes);
  return done ? Result<void>() : done.error();
}

}  // namespace kerncap::hsa
