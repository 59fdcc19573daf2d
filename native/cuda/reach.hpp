// Which memory a capture holds, and what it would have to hold and cannot.
#pragma once

#include <cstdint>
#include <set>

#include "core/result.hpp"
#include "cuda/job.hpp"

namespace kerncap::cuda {

// Of the thread that holds the window.
class Reach {
 public:
  // Lists the job's regions; an error where its kernel is given what no copy holds. Waits for other GPUs that write there.
  // `has_stuck`: one of their launches is not waited for.
  core::Result<void> list(Job& job, bool has_stuck) noexcept;

 private:
  core::Result<void> list_regions(Job& job) noexcept;
  core::Result<void> add_peers(Job& job) noexcept;
  void add_variables(Job& job) noexcept;
  core::Result<void> wait_for_other_gpus(const Job& job, bool has_stuck) noexcept;
  core::Result<void> refuse_unreachable(const Job& job) noexcept;

  bool m_others_are_busy = false;            // other GPUs, as a capture has found
  bool m_ordinary_is_said = false;           // that a kernel is given memory which no capture holds
  std::set<std::uint64_t> m_announced;       // modules whose variables the collector knows
};

}  // namespace kerncap::cuda
