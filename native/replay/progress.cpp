#include "replay/progress.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace kerncap::replay {
namespace {

constexpr std::chrono::milliseconds k_pause{50};
constexpr int k_line_bytes = 64;  // always as many, so that a reader finds one line

}  // namespace

Progress::Progress(const std::string& path) {
  if (!path.empty()) m_file = core::UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

void Progress::tell(const char* phase, std::uint64_t done, std::uint64_t total) {
  if (!m_file.valid()) return;
  const auto now = std::chrono::steady_clock::now();
  if (phase == m_phase && now - m_told < k_pause) return;
  m_phase = phase;
  m_told = now;
  char line[k_line_bytes + 1];
  const int length = std::snprintf(line, sizeof line, "%-15s %20llu %20llu\n", phase,
                                   static_cast<unsigned long long>(done), static_cast<unsigned long long>(total));
  // What cannot be told is not told: the replay goes on.
  if (length > 0 && length <= k_line_bytes) (void)!::pwrite(m_file.get(), line, static_cast<std::size_t>(length), 0);
}

}  // namespace kerncap::replay
