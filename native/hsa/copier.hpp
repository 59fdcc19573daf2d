// Reads device memory through a queue of our own with a kernel of our own, both made before anything is held:
// the runtime's copy paths may be blocked behind the very kernel that a capture holds.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "capture/allocations.hpp"
#include "capture/streams.hpp"
#include "core/result.hpp"
#include "hsa/agents.hpp"
#include "hsa/copies.hpp"

namespace kerncap::hsa {

class Copier {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  Copier();
  ~Copier();

  // Makes queues, loads the kernel and runs it once on every device.
  core::Result<void> prepare() noexcept;

  // Signals are made for each capture and given back after it: at rest we hold none of the runtime's.
  core::Result<void> arm() noexcept;
  void disarm() noexcept;

  // Queues a region's bytes for a stream; they are sent in order, possibly after this returns. `look`, if any, sees
  // them first; it must live until they are sent.
  core::Result<void> send(std::uint32_t stream, const capture::Allocation& region, std::uint32_t reader_device,
                          Deadline deadline, const capture::Look* look = nullptr) noexcept;
  // All that was queued has been sent, and its streams closed.
  core::Result<void> flush(Deadline deadline) noexcept;
  // A few bytes to our own memory.
  core::Result<void> read(std::uint32_t device, std::uint64_t address, void* to, std::size_t bytes,
                          Deadline deadline) noexcept;

  // The runtime is about to go, and nothing is under way.
  void end() noexcept;

  // Waits until the engines that the program used have done what they were given before: each gets a tiny copy.
  core::Result<void> drain(const std::vector<Copies::Route>& routes, Deadline deadline) noexcept;

 private:
  struct Engine;                     // one device's queue, kernel and scratch memory
  struct InFlight {
    Engine* engine;
    std::uint32_t argument_block;
    std::uint32_t stream;
    std::uint32_t slot;
    std::size_t bytes;
    bool last;
    hsa_signal_t done;
    const capture::Look* look;
  };
  core::Result<void> prepare_engine(Engine& engine) noexcept;
  core::Result<void> load_kernel(Engine& engine) noexcept;
  void launch(Engine& engine, std::uint32_t block, std::uint64_t from, std::uint64_t to, std::uint64_t bytes,
              hsa_signal_t done) noexcept;
  core::Result<void> retire_oldest(Deadline deadline) noexcept;
  core::Result<std::uint32_t> slot_for_us(Deadline deadline) noexcept;

  std::vector<std::unique_ptr<Engine>> m_engines;     // by device index
  std::deque<InFlight> m_in_flight;
  std::uint64_t m_slots_on_device = 0;                // address of the staging slots for the devices
  std::byte* m_scratch = nullptr;                     // host memory that every device can write
  bool m_ready = false;
};

}  // namespace kerncap::hsa
