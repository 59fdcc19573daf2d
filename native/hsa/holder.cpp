// Holds the program's other queues by injected barriers.
#include "hsa/holder.hpp"

#include <time.h>

#include <algorithm>

#include "hsa/api.hpp"
#include "hsa/packets.hpp"
#include "hsa/tool.hpp"

namespace kerncap::hsa {
namespace {

constexpr std::uint64_t k_append_limit_ms = 2000;
// A queue may stand in front of a barrier for a moment only, until another queue has moved on.
constexpr int k_looks_until_blocked = 20;

std::uint64_t read_index(const Queue& queue) noexcept {
  const hsa_queue_t* hardware = queue.hardware.load(std::memory_order_acquire);
  return hardware == nullptr ? 0 : reinterpret_cast<const amd_queue_v2_t*>(hardware)->read_dispatch_id;
}

}  // namespace

core::Result<void> Holder::hold(const Queue& target, hsa_signal_t resume, const std::vector<const Queue*>& stopped,
                                Deadline deadline) noexcept {
  m_held.clear();
  const auto& core = api().core;
  for (Queue* queue : tool()->queues.live()) {
    if (queue == &target || std::find(stopped.begin(), stopped.end(), queue) != stopped.end()) continue;
    // Signals of injected packets are never reused: a queue that was blocked may reach them much later.
    hsa_signal_t drained{};
    core.hsa_signal_create_fn(1, 0, nullptr, &drained);
    const Packet pair[] = {barrier({}, drained), barrier(resume, {})};
    if (core::Result<void> added = tool()->queues.append(*queue, pair, 2, k_append_limit_ms); !added) return added;
    m_held.push_back({queue, drained, k_not_blocked});
  }
  for (int looks = 0;; ++looks) {
    bool still = true;
    for (Held& held : m_held) {
      held.blocked_at = k_not_blocked;
      if (core.hsa_signal_load_scacquire_fn(held.drained) <= 0 || held.queue->gone.load()) continue;
      const std::uint64_t at = read_index(*held.queue);
      if (Queues::is_blocked(*held.queue)) {
        held.blocked_at = at;
        still = still && looks >= k_looks_until_blocked;
      } else {
        still = false;
        looks = 0;
      }
    }
    if (still) return {};
    if (std::chrono::steady_clock::now() > deadline) {
      return core::Error{core::ErrorCode::timeout, "another queue did not come to rest"};
    }
    const timespec pause{0, 100'000};
    ::nanosleep(&pause, nullptr);
  }
}

bool Holder::still_held() const noexcept {
  for (const Held& held : m_held) {
    if (held.blocked_at != k_not_blocked && !held.queue->gone.load() && read_index(*held.queue) != held.blocked_at) {
      return false;
    }
  }
  return true;
}

}  // namespace kerncap::hsa
