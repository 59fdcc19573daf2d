// Which launches an autotuner only tries. Runs in the user's program: nothing is allocated under the lock, and no clock is read under it,
// because what reads the clock may hold a lock of its own where it asks was_in_trial().
#include "capture/trials.hpp"

#include <atomic>
#include <list>
#include <mutex>
#include <new>

namespace kerncap::capture {
namespace {

struct Trial {
  std::uint64_t begin;
  std::uint64_t end;
};

std::atomic<std::uint32_t> g_under_way{0};
std::atomic<std::uint64_t (*)() noexcept> g_clock{nullptr};

std::mutex g_mutex;                              // guards what follows
std::list<Trial> g_trials;                       // those that are over, the latest first
std::uint64_t g_begin = 0;                       // of the one under way

std::uint64_t now() noexcept {
  const auto clock = g_clock.load();
  return clock == nullptr ? 0 : clock();
}

}  // namespace

bool in_trial() noexcept { return g_under_way.load(std::memory_order_relaxed) != 0; }

void keep_trial_times(std::uint64_t (*clock)() noexcept) noexcept { g_clock.store(clock); }

bool was_in_trial(std::uint64_t time) noexcept {
  const std::lock_guard lock(g_mutex);
  if (in_trial() && time >= g_begin) return true;
  for (const Trial& trial : g_trials) {
    if (trial.end < time) return false;
    if (trial.begin <= time) return true;
  }
  return false;
}

}  // namespace kerncap::capture

using namespace kerncap::capture;

__attribute__((visibility("default"))) void kerncap_begin_trial() noexcept {
  const std::uint64_t begin = now();
  const std::lock_guard lock(g_mutex);
  if (g_under_way.fetch_add(1) == 0) g_begin = begin;
}

__attribute__((visibility("default"))) void kerncap_end_trial() noexcept {
  const std::uint64_t end = now();
  std::list<Trial> over;
  try {
    over.push_back({0, end});
  } catch (const std::bad_alloc&) {
    // Its launches then count.
  }
  const std::lock_guard lock(g_mutex);
  const std::uint32_t before = g_under_way.load();
  if (before == 0) return;
  g_under_way.store(before - 1);
  if (before != 1 || over.empty() || g_clock.load() == nullptr) return;
  over.front().begin = g_begin;
  g_trials.splice(g_trials.begin(), over);
}
