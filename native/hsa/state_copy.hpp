// One capture's memory on its way to the collector: the state before the kernel, and the state after it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
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
  // `limit`: of each wait.
  StateCopy(Copier& copier, std::uint64_t capture, const Kernel& kernel, std::vector<capture::Allocation> regions,
            std::vector<std::byte> kernarg, std::uint64_t kernarg_address, std::chrono::milliseconds limit);

  // All regions; where the collector wants only what is in reach, those that the arguments lead to.
  core::Result<void> pre() noexcept;
  // The regions of the pre-state again; but memory that holds arguments and to which none points counts as unchanged: no
  // kernel writes there, and the program's threads put the arguments of later dispatches into it all the while.
  core::Result<void> post() noexcept;

  [[nodiscard]] std::uint64_t copied_bytes() const noexcept { return m_copied_bytes; }

 private:
  core::Result<void> pre_in_reach() noexcept;
  core::Result<void> send(capture::StreamKind kind, std::size_t index, const capture::Look* look) noexcept;
  core::Result<void> send_all(capture::StreamKind kind) noexcept;

  Copier& m_copier;
  std::uint64_t m_capture;
  Kernel m_kernel;
  const std::vector<capture::Allocation> m_regions;
  const std::vector<std::byte> m_kernarg;
  const std::uint64_t m_kernarg_address;
  const std::chrono::milliseconds m_limit;
  std::vector<bool> m_taken;
  std::vector<bool> m_unchanged;
  std::uint64_t m_copied_bytes = 0;
};

}  // namespace kerncap::hsa
