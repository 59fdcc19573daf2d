// Keeps the captured addresses free until a driver places memory there, and finds out who has them if not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "replay/driver.hpp"

namespace kerncap::replay {

// Whole pages, merged where regions of one kind touch; ascending. With the place of the kernel's code object.
[[nodiscard]] core::Result<std::vector<Range>> ranges_of(const Plan& plan);

// Holds every range with inaccessible pages. Must run before the GPU runtime starts: it then looks elsewhere
// for its own memory. Where something of ours is in the way the process is started again with another layout
// (the loader's choice, then none at all), a few times at most.
core::Result<void> hold(const std::vector<Range>& ranges, char** argv);

// Starts this program again with another layout of its address space: as the loader chooses, in the end without any
// chance in it. Returns on failure, or when that was tried often enough.
void start_again(char** argv);

// Lets one range go, right before it is placed.
core::Result<void> let_go(const Range& range);

// "0x7f12...-0x7f13... r-xp /usr/lib/libc.so.6": what holds a part of the range, for people.
[[nodiscard]] std::string holder_of(std::uint64_t base, std::uint64_t bytes);

}  // namespace kerncap::replay
