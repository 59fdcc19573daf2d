// Reads device memory through a queue of our own with a kernel of our own, both made before anything is held:
// the runtime's copy paths may be blocked behind the very kernel that a capture holds.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "capture/allocations.hpp"
#include "capture/slot_pipeline.hpp"
#include "core/result.hpp"
#include "hsa/agents.hpp"
#include "hsa/copies.hpp"

namespace kerncap::hsa {

class Copier {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit Copier(capture::Channel& channel);
  ~Copier();

  // Makes queues, loads the kernel and runs it once on every device.
  core::Result<void> prepare() noexcept;

  // Signals are made for each capture and given back after it: at rest we hold none of the runtime's.
  core::Result<void> arm() noexcept;
  void disarm() noexcept;

  // Sends a region's bytes as a stream, possibly after this returns. `look`, if any, sees them first; it must live until
  // they are sent.
  core::Result<void> send(std::uint32_t stream, const capture::Allocation& region, std::uint32_t reader_device,
                          capture::Limit limit, const capture::Look* look = nullptr) noexcept;
  // All has been sent, and its streams closed.
  core::Result<void> flush(capture::Limit limit) noexcept { return m_pipeline.flush(limit); }
  // A few bytes to our own memory.
  core::Result<void> read(std::uint32_t device, std::uint64_t address, void* to, std::size_t bytes,
                          Deadline deadline) noexcept;

  // The runtime is about to go, and nothing is under way.
  void end() noexcept;

  // Waits until the engines that the program used have done what they were given before: each gets a tiny copy.
  core::Result<void> drain(const std::vector<Copies::Route>& routes, Deadline deadline) noexcept;

 private:
  struct Engine;                     // one device's queue, kernel and scratch memory
  core::Result<void> prepare_engine(Engine& engine) noexcept;
  core::Result<void> load_kernel(Engine& engine) noexcept;

  std::vector<std::unique_ptr<Engine>> m_engines;     // by device index
  capture::SlotPipeline m_pipeline;
  std::byte* m_scratch = nullptr;                     // host memory that every device can write
  bool m_ready = false;
};

}  // namespace kerncap::hsa
