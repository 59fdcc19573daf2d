// An autotuner launches a kernel in many configurations, and then uses the best one. kerncap_triton, which runs in the
// program's Python, calls the functions below when a trial begins and ends.
#pragma once

#include <cstdint>

namespace kerncap::capture {

// Whether the process tries configurations now. This holds for all of its threads: a launch may be handed on to another.
[[nodiscard]] bool in_trial() noexcept;

// For launches of which only the times become known, later: from now on the times of trials are kept, by this clock.
void keep_trial_times(std::uint64_t (*clock)() noexcept) noexcept;
[[nodiscard]] bool was_in_trial(std::uint64_t time) noexcept;

}  // namespace kerncap::capture

extern "C" {
void kerncap_begin_trial() noexcept;
void kerncap_end_trial() noexcept;
}
