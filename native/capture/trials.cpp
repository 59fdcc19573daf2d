#include "capture/trials.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace kerncap::capture {
namespace {

struct Trial {
  std::uint64_t begin;
  std::uint64_t end;
};

std::atomic<std::uint32_t> g_under_way{0};

std::mutex g_mutex;                              // guards what follows
std::uint64_t (*g_clock)() noexcept = nullptr;
std::vector<Trial> g_trials;                     // those that are over, by ascending end
std::uint64_t g_begin = 0;                       // of the one under way

}  // namespace

bool in_trial() noexcept { return g_under_way.load(std::memory_order_relaxed) != 0; }

void keep_trial_times(std::uint64_t (*clock)() noexcept) noexcept {
  const std::lock_guard lock(g_mutex);
  g_clock = clock;
}

bool was_in_trial(std::uint64_t time) noexcept {
  const std::lock_guard lock(g_mutex);
  if (in_trial() && time >= g_begin) return true;
  const auto after = std::lower_bound(g_trials.begin(), g_trials.end(), time,
                                      [](const Trial& trial, std::uint64_t at) { return trial.end < at; });
  return after != g_trials.end() && after->begin <= time;
}

}  // namespace kerncap::capture

using namespace kerncap::capture;

__attribute__((visibility("default"))) void kerncap_begin_trial() noexcept {
  const std::lock_guard lock(g_mutex);
  if (g_under_way.fetch_add(1, std::memory_order_relaxed) == 0 && g_clock != nullptr) g_begin = g_clock();
}

__attribute__((visibility("default"))) void kerncap_end_trial() noexcept {
  const std::lock_guard lock(g_mutex);
  if (g_under_way.fetch_sub(1, std::memory_order_relaxed) == 1 && g_clock != nullptr) g_trials.push_back({g_begin, g_clock()});
}
