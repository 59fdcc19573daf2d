// Holds the program's other queues by injected barriers.
#include "hsa/holder.hpp"

#include <time.h>

#include <algorithm>

#include "hsa/api.hpp"
#include "hsa/blocked.hpp"
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
  put_away();
  m_resume = resume;
  m_left_alone.clear();
  const auto& core = api().core;
  for (Queue* queue : tool()->queues.live()) {
    if (queue == &target || std::find(stopped.begin(), stopped.end(), queue) != stopped.end()) continue;
    if (tool()->queues.is_for_kernels(*queue)) {
      m_left_alone.push_back({queue, core.hsa_queue_load_write_index_relaxed_fn(queue->handle)});
      continue;
    }
    // Signals of injected packets are never reused: a queue that was blocked may reach them much later.
    hsa_signal_t drained{};
    hsa_signal_t passed{};
    core.hsa_signal_create_fn(1, 0, nullptr, &drained);
    core.hsa_signal_create_fn(1, 0, nullptr, &passed);
    const Packet pair[] = {barrier({}, drained), barrier(resume, passed)};
    if (core::Result<void> added = tool()->queues.append(*queue, pair, 2, k_append_limit_ms); !added) {
      core.hsa_signal_destroy_fn(drained);
      core.hsa_signal_destroy_fn(passed);
      return added;
    }
    m_held.push_back({queue, drained, passed, k_not_blocked});
  }
  for (int looks = 0;; ++looks) {
    bool still = true;
    for (Held& held : m_held) {
      held.blocked_at = k_not_blocked;
      if (core.hsa_signal_load_scacquire_fn(held.drained) <= 0 || held.queue->gone.load()) continue;
      const std::uint64_t at = read_index(*held.queue);
      if (is_blocked(*held.queue)) {
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
    if (!enabled()) return core::Error{core::ErrorCode::io, k_runtime_ends};
    const timespec pause{0, 100'000};
    ::nanosleep(&pause, nullptr);
  }
}

void Holder::put_away() noexcept {
  const std::lock_guard lock(m_mutex);
  if (m_resume.handle != 0) m_spent.push_back({m_resume, std::move(m_held), false});
  m_held.clear();
  m_resume = {};
}

void Holder::let_go(hsa_signal_t resume) noexcept {
  if (resume.handle == m_resume.handle) put_away();
  const std::lock_guard lock(m_mutex);
  for (Spent& spent : m_spent) {
    if (spent.resume.handle == resume.handle) {
      spent.over = true;
      return;
    }
  }
  m_spent.push_back({resume, {}, true});  // failed before anything was held
}

bool Holder::tidy() noexcept {
  const std::lock_guard lock(m_mutex);
  const auto& core = api().core;
  std::erase_if(m_spent, [&core](const Spent& spent) {
    if (!spent.over) return false;
    for (const Held& held : spent.held) {
      if (!held.queue->destroyed.load() && core.hsa_signal_load_scacquire_fn(held.passed) > 0) return false;
    }
    for (const Held& held : spent.held) {
      core.hsa_signal_destroy_fn(held.drained);
      core.hsa_signal_destroy_fn(held.passed);
    }
    core.hsa_signal_destroy_fn(spent.resume);
    return true;
  });
  return m_spent.empty();
}

bool Holder::still_held() const noexcept {
  for (const Held& held : m_held) {
    if (held.blocked_at != k_not_blocked && !held.queue->gone.load() && read_index(*held.queue) != held.blocked_at) {
      return false;
    }
  }
  return std::all_of(m_left_alone.begin(), m_left_alone.end(), [](const LeftAlone& left) {
    return left.queue->gone.load() ||
           api().core.hsa_queue_load_write_index_relaxed_fn(left.queue->handle) == left.write_index;
  });
}

}  // namespace kerncap::hsa
