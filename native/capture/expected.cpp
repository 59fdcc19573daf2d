// Runs in the user's program, on a thread that is about to launch a kernel: nothing waits and nothing is allocated.
#include "capture/expected.hpp"

#include <atomic>

#include "capture/trials.hpp"

namespace kerncap::capture {
namespace {

std::atomic<const Channel*> g_channel{nullptr};

}  // namespace

void answer_for(const Channel& channel) noexcept { g_channel.store(&channel, std::memory_order_release); }

}  // namespace kerncap::capture

using namespace kerncap::capture;

__attribute__((visibility("default"))) int kerncap_expects_capture() noexcept {
  const Channel* const channel = g_channel.load(std::memory_order_acquire);
  if (channel == nullptr || !channel->active() || channel->mode() != Mode::capture || in_trial()) return 0;
  std::size_t index = 0;
  for (const Rule& rule : channel->rules()) {
    const std::uint64_t matched = channel->control().matched[index++].load(std::memory_order_relaxed);
    if (is_expected(rule, matched)) return 1;
  }
  return 0;
}
