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
  {
    // Before the list of queues is taken: one that is made from now on is held by who makes it.
    const std::lock_guard lock(m_mutex);
    put_away();
    m_resume = resume;
    m_left_alone.clear();
    m_slipped = false;
  }
  for (Queue* queue : tool()->queues.live()) {
    if (queue == &target || std::find(stopped.begin(), stopped.end(), queue) != stopped.end()) continue;
    if (core::Result<void> held = hold_one(*queue); !held) return held;
  }
  for (int looks = 0;; ++looks) {
    bool moved = false;
    if (all_at_rest(looks >= k_looks_until_blocked, moved)) return {};
    if (moved) looks = 0;
    if (std::chrono::steady_clock::now() > deadline) {
      return core::Error{core::ErrorCode::timeout, "another queue did not come to rest"};
    }
    if (!enabled()) return core::Error{core::ErrorCode::io, capture::k_runtime_ends};
    const timespec pause{0, 100'000};
    ::nanosleep(&pause, nullptr);
  }
}

void Holder::hold_too(Queue& queue) noexcept {
  if (hold_one(queue)) return;
  const std::lock_guard lock(m_mutex);
  m_slipped = true;
}

core::Result<void> Holder::hold_one(Queue& queue) noexcept {
  const auto& core = api().core;
  // Signals of injected packets are never reused: a queue that was blocked may reach them much later.
  hsa_signal_t drained{};
  hsa_signal_t passed{};
  hsa_signal_t resume{};
  {
    const std::lock_guard lock(m_mutex);
    const auto is_it = [&queue](const auto& known) { return known.queue == &queue; };
    const bool known = std::any_of(m_held.begin(), m_held.end(), is_it) ||
                       std::any_of(m_left_alone.begin(), m_left_alone.end(), is_it);
    if (m_resume.handle == 0 || known) return {};
    if (tool()->queues.is_for_kernels(queue)) {
      const QueueUse use(queue);
      const std::uint64_t index = use ? core.hsa_queue_load_write_index_relaxed_fn(queue.handle) : 0;
      m_left_alone.push_back({&queue, index});
      return {};
    }
    core.hsa_signal_create_fn(1, 0, nullptr, &drained);
    core.hsa_signal_create_fn(1, 0, nullptr, &passed);
    resume = m_resume;
    m_held.push_back({&queue, drained, passed, k_not_blocked});
  }
  const Packet pair[] = {barrier({}, drained), barrier(resume, passed)};
  // One that the program is about to destroy may still run something: it stays in the list until it is destroyed.
  const core::Result<bool> added = tool()->queues.append(queue, pair, 2, k_append_limit_ms);
  if (added) return {};
  forget(drained);
  return added.error();
}

// Under the lock: queues may be made meanwhile.
bool Holder::all_at_rest(bool blocked_is_enough, bool& moved) noexcept {
  const std::lock_guard lock(m_mutex);
  bool all = true;
  for (Held& held : m_held) {
    held.blocked_at = k_not_blocked;
    if (api().core.hsa_signal_load_scacquire_fn(held.drained) <= 0 || held.queue->destroyed.load()) continue;
    const QueueUse use(*held.queue);
    const std::uint64_t at = use ? read_index(*held.queue) : 0;
    if (use && is_blocked(*held.queue)) {
      held.blocked_at = at;
      all = all && blocked_is_enough;
    } else {
      all = false;
      moved = true;
    }
  }
  return all;
}

void Holder::put_away() noexcept {
  if (m_resume.handle != 0) m_spent.push_back({m_resume, std::move(m_held), false});
  m_held.clear();
  m_resume = {};
}

// Nothing in any queue names them. The capture may be over by now.
void Holder::forget(hsa_signal_t drained) noexcept {
  const std::lock_guard lock(m_mutex);
  const auto take_out = [drained](std::vector<Held>& list) {
    std::erase_if(list, [drained](const Held& held) {
      if (held.drained.handle != drained.handle) return false;
      api().core.hsa_signal_destroy_fn(held.drained);
      api().core.hsa_signal_destroy_fn(held.passed);
      return true;
    });
  };
  take_out(m_held);
  for (Spent& spent : m_spent) take_out(spent.held);
}

void Holder::let_go(hsa_signal_t resume) noexcept {
  const std::lock_guard lock(m_mutex);
  if (resume.handle == m_resume.handle) put_away();
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

bool Holder::still_held() noexcept {
  const std::lock_guard lock(m_mutex);
  const auto is_as_it_was = [](const Held& held) {
    if (held.blocked_at == k_not_blocked) return true;
    const QueueUse use(*held.queue);
    return use && read_index(*held.queue) == held.blocked_at;
  };
  const auto was_left_alone = [](const LeftAlone& left) {
    const QueueUse use(*left.queue);
    return use && api().core.hsa_queue_load_write_index_relaxed_fn(left.queue->handle) == left.write_index;
  };
  return !m_slipped && std::all_of(m_held.begin(), m_held.end(), is_as_it_was) &&
         std::all_of(m_left_alone.begin(), m_left_alone.end(), was_left_alone);
}

}  // namespace kerncap::hsa
