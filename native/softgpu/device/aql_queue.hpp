// The AQL packet processor of one queue: order, barriers, dependencies, dispatches, completion.
//
// Packets start in order. A kernel runs beside what started before it unless its packet has the barrier bit; a barrier
// packet holds up the queue until its dependencies are met. Packets retire in order: only then is the slot invalid
// again and the read index moves, as a running kernel may read its own packet.
//
// The read index, the headers and the signals are written through the GPU's page table, like everything else. Steps
// come from the runner and, so that a chain of kernels needs no other thread, from the engine's completions.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "softgpu/device/aql.hpp"
#include "softgpu/device/gpu_memory.hpp"
#include "softgpu/device/queue.hpp"

namespace kerncap::softgpu {

class AqlQueue final : public Queue, public std::enable_shared_from_this<AqlQueue> {
 public:
  AqlQueue(const QueueContext& context, const QueueSettings& settings);

  [[nodiscard]] Progress step() override;
  void stop() override;

 private:
  enum class State : std::uint8_t { running, failed, stopped };
  enum class Start : std::uint8_t { started, waits_for_memory, waits_for_kernels, failed };

  struct InFlight {
    std::uint64_t index;
    std::uint64_t completion_signal;
    bool scratch_once;
    bool done;
  };

  // All of these with m_mutex held.
  Progress advance();
  void note_doorbell() noexcept;
  [[nodiscard]] bool has_announced() noexcept;
  [[nodiscard]] bool has_unannounced() noexcept;
  Start start(std::uint64_t index);
  Start start_kernel(std::uint64_t index, const aql::KernelDispatch& packet);
  Start finish_barrier(std::uint64_t index, const aql::Barrier& packet, bool any);
  Start finish_barrier_value(std::uint64_t index, const aql::BarrierValue& packet);
  Start finish_pm4(std::uint64_t index, const aql::Pm4Buffer& packet);
  Start finish_at_once(std::uint64_t index, std::uint64_t completion_signal);
  [[nodiscard]] bool check(std::uint64_t index, const aql::KernelDispatch& packet);
  Start prepare_scratch(std::uint64_t index, const aql::KernelDispatch& packet, Dispatch& dispatch);
  void on_kernel_end(std::uint64_t index, const aql::KernelDispatch& packet, const DispatchOutcome& outcome,
                     const AccessRecord* accesses);
  void retire();
  [[nodiscard]] std::int64_t inactive_value();
  [[nodiscard]] std::uint64_t packet_address(std::uint64_t index) const noexcept;
  [[nodiscard]] bool signal(std::uint64_t signal_va, TimeStamps stamps);

  Start fail(std::uint64_t index, aql::QueueError error, const std::string& message);
  Start fail(std::uint64_t index, const MemoryFault& fault, const char* what);
  [[nodiscard]] Fault with_reason(Fault fault) const noexcept;
  void report_fault(std::uint64_t index, std::uint64_t descriptor_va, const DispatchOutcome& outcome);
  void raise(aql::QueueError error);

  // Recursive, as the engine calls back from within submit() when a kernel cannot start.
  std::recursive_mutex m_mutex;
  GpuMemory m_memory;
  std::uint64_t m_queue_va;        // amd_queue_t
  State m_state = State::running;
  std::uint64_t m_submitted = 0;   // packets below this index have been announced by the doorbell
  std::uint64_t m_next = 0;        // the next packet to start
  std::uint64_t m_unannounced_since_ns = 0;  // 0: the next packet is announced, or there is none
  std::uint64_t m_traced = 0;      // packets below this index have been told to who traces
  std::deque<InFlight> m_in_flight;
  unsigned m_running = 0;          // kernels in the engine
  std::uint64_t m_kernels = 0;     // that were started
  bool m_scratch_requested = false;  // ROCr has been asked, or told to take it back, and has not answered
  std::shared_ptr<ScratchSlots> m_scratch;
};

}  // namespace kerncap::softgpu
