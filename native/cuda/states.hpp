// How the states of a capture get from the program's memory to the collector.
#pragma once

#include "capture/protocol.hpp"
#include "core/result.hpp"
#include "cuda/job.hpp"
#include "cuda/window.hpp"

namespace kerncap::cuda {

// Straight from the program's memory, while everything is held: until it is disturbed.
core::Result<void> send_live(const Job& job, capture::StreamKind kind, const Window& window) noexcept;
// Compares the pre-state on the device with what is there now, and keeps what has changed; where there is no room for that, all is
// sent, that from the program's memory until it is disturbed.
core::Result<void> keep_changed(Job& job, const Window& window) noexcept;
// What lies on the device; what does not has been sent.
core::Result<void> send_kept(Copier& copier, Job& job) noexcept;
// So little that it takes next to no time.
[[nodiscard]] bool is_small(const Job& job) noexcept;

}  // namespace kerncap::cuda
