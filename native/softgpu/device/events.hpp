// The kernel driver's events: how a GPU wakes host threads. Semantics of the driver, which ROCr builds on:
//
// - An auto-reset event that is set while threads wait wakes them all and is not left set.
// - A signal event has an age, 1 at first, that each set advances. A waiter that knows an older age returns at once, so
//   that a set between its look at the signal's value and its wait is not lost. Age 0 means: does not care.
//   ROCr 6.4 forgets the ages that it is told, and waits with age 1 again and again until a signal has the value that it
//   waits for, which may take as long as a kernel does. So a thread that asks again although nothing was set since it was
//   told waits for up to a millisecond before it is told the same.
// - Memory and hardware exceptions carry data, which every waiter gets.
#pragma once

#include <linux/kfd_ioctl.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

namespace kerncap::softgpu {

class EventTable {
 public:
  struct Created {
    std::uint32_t id, slot;
  };
  // 0 as id: none left.
  [[nodiscard]] Created create(std::uint32_t type, bool auto_reset);
  bool destroy(std::uint32_t id);
  bool set(std::uint32_t id);
  bool reset(std::uint32_t id);

  // `m0` of an interrupt message: the event's number, of which the hardware keeps 8 bits when it is sent by a wave.
  void interrupt(std::uint32_t m0);

  void memory_exception(std::uint32_t gpu_id, std::uint64_t address, bool read_only, bool no_execute);
  void hardware_exception(std::uint32_t gpu_id);

  // Fills in ages and exception data of the events that happened; KFD_IOC_WAIT_RESULT_*.
  [[nodiscard]] std::uint32_t wait(std::span<kfd_event_data> events, bool all, std::uint32_t timeout_ms);

 private:
  struct Waiter;
  struct Event {
    std::uint32_t type = 0;
    bool auto_reset = false;
    bool signaled = false;
    std::uint64_t age = 1;
    // Which thread waited with another age last, and was told this one.
    std::thread::id told;
    std::uint64_t told_age = 0;
    kfd_hsa_memory_exception_data memory{};
    kfd_hsa_hw_exception_data hardware{};
    std::vector<Waiter*> waiters;
  };

  static void signal(Event& event);

  std::mutex m_mutex;
  std::unordered_map<std::uint32_t, Event> m_events;
  std::uint32_t m_next_signal = 1, m_next_other = 0;
};

}  // namespace kerncap::softgpu
