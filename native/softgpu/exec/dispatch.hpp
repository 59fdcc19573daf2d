// One kernel dispatch, as packet processing hands it over, and what comes back.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "softgpu/exec/fault.hpp"
#include "softgpu/isa/opcode.hpp"
#include "softgpu/memory/access_record.hpp"
#include "softgpu/memory/address_space.hpp"

namespace kerncap::softgpu {

// The scratch memory of one queue, cut into equal parts, one for each resident wave. Shared by the queue's dispatches;
// the engine takes a part when a wave starts and gives it back when the wave ends.
class ScratchSlots {
 public:
  ScratchSlots(std::uint64_t base, std::uint64_t bytes_per_wave, std::uint32_t count);
  [[nodiscard]] bool take(std::uint32_t& slot) noexcept;
  void give_back(std::uint32_t slot) noexcept;
  [[nodiscard]] std::uint64_t base() const noexcept { return m_base; }
  [[nodiscard]] std::uint64_t bytes_per_wave() const noexcept { return m_bytes_per_wave; }
  [[nodiscard]] std::uint32_t count() const noexcept { return m_count; }

 private:
  std::uint64_t m_base, m_bytes_per_wave;
  std::uint32_t m_count;
  std::unique_ptr<std::atomic<std::uint64_t>[]> m_taken;
};

// What decides how many work-groups the GPU runs at once, as on hardware. count 0: as many as there are.
struct ComputeUnits {
  std::uint32_t count = 0;
  std::uint32_t simds = 4, waves_per_simd = 8, registers_per_simd = 512;  // vector registers: rows of one wavefront's lanes
  std::uint32_t lds_bytes = 64 * 1024;
};

struct Dispatch {
  Target target = Target::gfx90a;
  const AddressSpace* space = nullptr;  // outlives the dispatch
  const void* owner = nullptr;          // the queue: Engine::abort() takes all dispatches of one owner away
  // From the AQL packet; all of it copied, as the ring may be overwritten.
  std::uint64_t descriptor_va = 0;      // kernel_object
  std::uint64_t kernarg_va = 0;
  std::uint64_t packet_va = 0, queue_va = 0, dispatch_id = 0;  // for kernels that ask for them
  std::uint64_t kernels_before = 0;     // in its queue
  bool begins_with_leftovers = false;   // of earlier kernels, in registers, LDS and scratch memory; not with patterns
  std::uint64_t clock_ahead_ns = 0;     // of its clocks, before CLOCK_MONOTONIC_RAW
  std::uint32_t grid[3] = {1, 1, 1};    // work-items
  std::uint16_t group[3] = {1, 1, 1};
  std::uint32_t group_segment_size_bytes = 0;    // static and dynamic LDS together
  std::uint32_t private_segment_size_bytes = 0;  // per work-item
  std::shared_ptr<ScratchSlots> scratch;         // null when the kernel needs none
  std::array<std::uint32_t, 4> scratch_descriptor{};  // amd_queue_t::scratch_resource_descriptor
  std::uint64_t shared_base = std::uint64_t{1} << 48, private_base = std::uint64_t{2} << 48;
  std::uint32_t max_lds_bytes = 64 * 1024;
  ComputeUnits units;
  bool count_instructions = false;
  std::shared_ptr<AccessRecord> accesses;  // null: nobody wants to know
  // s_sendmsg MSG_INTERRUPT with M0: how device code wakes a host that waits for a signal. Called on a worker, inside
  // an open View of `space`: must not change mappings.
  std::function<void(std::uint32_t m0)> interrupt;
  // Asked about each lane that reaches beyond the work-group's LDS, with the fault that it would be: true goes on as hardware does
  // (reads give 0, writes are dropped), false stops the dispatch. Null: always goes on. Called as `interrupt` is, by several workers.
  std::function<bool(const Fault&)> goes_on_beyond_lds;
};

struct InstructionCounts {
  std::array<std::uint64_t, k_class_count> by_class{};  // InstructionClass; wave-instructions
  std::uint64_t total = 0;
};

struct DispatchOutcome {
  Fault fault;           // kind none: it ran to the end
  bool aborted = false;  // taken away by Engine::abort()
  std::string refusal;   // FaultKind::bad_descriptor: what cannot be
  std::uint64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC_RAW
  InstructionCounts counts;  // total always; by_class on request
};

}  // namespace kerncap::softgpu
