// How far a replay is, for whoever waits for it: a file of one line, "PHASE DONE TOTAL", written over in place.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/unique_fd.hpp"

namespace kerncap::replay {

class Progress {
 public:
  // No path, or a file that cannot be written: nobody is told.
  explicit Progress(const std::string& path);

  // Cheap enough to be called for each chunk: most calls only look at the clock. The beginning of a phase is always told.
  void tell(const char* phase, std::uint64_t done, std::uint64_t total);

 private:
  core::UniqueFd m_file;
  const char* m_phase = nullptr;
  std::chrono::steady_clock::time_point m_told;
};

}  // namespace kerncap::replay
