// What the program frees during a capture is kept for it: an allocation that finds no room waits until that is given back.
#pragma once

#include "hsa/tool.hpp"

namespace kerncap::hsa {

template <typename Allocate>
hsa_status_t allocate_again_if_kept(Allocate allocate) {
  if (!enabled()) return allocate();
  capture::Session& session = tool()->snapshots.session();
  // Again and again: other threads' frees are kept for the next capture, too.
  const auto until = capture::Clock::now() + session.patience();
  for (;;) {
    const std::uint64_t given_back = session.given_back();
    const hsa_status_t status = allocate();
    if (status != HSA_STATUS_ERROR_OUT_OF_RESOURCES || capture::Clock::now() > until) return status;
    if (!session.wait_for_kept(given_back)) return status;
  }
}

}  // namespace kerncap::hsa
