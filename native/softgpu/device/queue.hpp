// A user-mode queue, as its packet processor sees it: a state machine that a Runner steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "softgpu/device/access_log.hpp"
#include "softgpu/device/clock_jumps.hpp"
#include "softgpu/device/events.hpp"
#include "softgpu/device/gpu.hpp"
#include "softgpu/device/instruction_log.hpp"
#include "softgpu/device/lds_watch.hpp"
#include "softgpu/exec/engine.hpp"

namespace kerncap::softgpu {

// What every queue works with; all of it outlives the queue.
struct QueueContext {
  Gpu& gpu;
  EventTable& events;
  Engine& engine;
  InstructionLog* log;  // null: nobody counts
  std::function<void()> changed;  // memory that other queues may wait for was written
  std::span<const std::unique_ptr<Gpu>> gpus{};  // all of the process
  LdsWatch* lds = nullptr;  // null: nobody is told of accesses beyond the LDS
  AccessLog* accesses = nullptr;  // null: nobody records them
  ClockJumps* clock = nullptr;  // null: the host's
  bool keeps_leftovers = false;  // Dispatch::begins_with_leftovers
};

struct QueueSettings {
  std::uint32_t id = 0;
  std::uint64_t ring_va = 0, ring_bytes = 0;
  std::uint64_t read_pointer_va = 0, write_pointer_va = 0;
  std::uint64_t context_save_va = 0;  // AQL: begins with a ContextSaveHeader
  std::uint64_t* doorbell = nullptr;  // in the memory file's own mapping
};

class Queue {
 public:
  // What a step came to, for the runner's decision when to step again.
  enum class Progress : std::uint8_t {
    worked,  // something was done: step again at once
    polls,   // waits for memory that the host may write: step again soon
    rests,   // nothing to do before the doorbell rings or something of ours completes
  };

  Queue(const QueueContext& context, const QueueSettings& settings) noexcept
      : m_context(context), m_settings(settings) {}
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] virtual Progress step() = 0;
  // Returns once no packet is being processed; none will be afterwards. Called without the runner's lock.
  virtual void stop() = 0;
  // A suspended queue (percentage 0) takes up no packet.
  void suspend(bool suspended) noexcept { m_suspended.store(suspended); }

  [[nodiscard]] const QueueSettings& settings() const noexcept { return m_settings; }
  [[nodiscard]] const Gpu& gpu() const noexcept { return m_context.gpu; }

 protected:
  [[nodiscard]] std::uint64_t doorbell() const noexcept {
    return std::atomic_ref<std::uint64_t>(*m_settings.doorbell).load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_suspended() const noexcept { return m_suspended.load(); }

  const QueueContext m_context;
  const QueueSettings m_settings;

 private:
  std::atomic<bool> m_suspended{false};
};

}  // namespace kerncap::softgpu
