// One capture's memory on its way to the collector: the state before the kernel, and the state after it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "capture/allocations.hpp"
#include "capture/protocol.hpp"
#include "capture/streams.hpp"
#include "core/result.hpp"
#include "hsa/copier.hpp"
#include "hsa/kernels.hpp"

namespace kerncap::hsa {

class StateCopy {
 public:
  // `regions` outlives this. All waits are bounded by the collector's limit.
  StateCopy(Copier& copier, std::uint64_t capture, const Kernel& kernel, const std::vector<capture::Allocation>& regions);

  // All regions; where the collector wants only what is in reach, those that the arguments lead to.
  core::Result<void> pre(std::span<const std::byte> kernarg, std::uint64_t kernarg_address) noexcept;
  // The regions of the pre-state again; but memory that holds arguments and to which none points counts as unchanged: no
  // kernel writes there, and the program's threads put the arguments of later dispatches into it all the while.
  core::Result<void> post(std::span<const std::byte> kernarg, std::uint64_t kernarg_address) noexcept;

  [[nodiscard]] std::uint64_t copied_bytes() const noexcept { return m_copied_bytes; }

 private:
  core::Result<void> pre_in_reach(std::span<const std::byte> kernarg, std::uint64_t kernarg_address) noexcept;
  core::Result<void> send(capture::StreamKind kind, std::size_t index, const capture::Look* look) noexcept;
  core::Result<void> send_all(capture::StreamKind kind) noexcept;
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const noexcept;

  Copier& m_copier;
  std::uint64_t m_capture;
  Kernel m_kernel;
  const std::vector<capture::Allocation>& m_regions;
  std::vector<bool> m_taken;
  std::vector<bool> m_unchanged;
  std::uint64_t m_copied_bytes = 0;
};

}  // namespace kerncap::hsa
