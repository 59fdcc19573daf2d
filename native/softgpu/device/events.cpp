#include "softgpu/device/events.hpp"

#include <algorithm>
#include <chrono>

namespace kerncap::softgpu {
namespace {

constexpr std::uint32_t k_first_other = 0x8000'0000;  // events that have no slot in the signal page
constexpr std::uint32_t k_infinite_ms = 0xFFFF'FFFE;  // and above
constexpr std::chrono::milliseconds k_asked_again{1};

[[nodiscard]] bool has_slot(std::uint32_t type) noexcept {
  return type == KFD_IOC_EVENT_SIGNAL || type == KFD_IOC_EVENT_DEBUG_EVENT;
}

}  // namespace

// One waiting thread. `done` is by position in its list of events.
struct EventTable::Waiter {
  std::condition_variable wake;
  std::vector<std::uint32_t> ids;
  std::vector<bool> done;
  bool set = false;   // one of the events was set while the thread waited
  bool gone = false;  // one of the events was destroyed: it will never happen
};

EventTable::Created EventTable::create(std::uint32_t type, bool auto_reset) {
  const std::lock_guard lock(m_mutex);
  std::uint32_t id = 0;
  if (has_slot(type)) {
    for (std::uint32_t tries = 0; tries < KFD_SIGNAL_EVENT_LIMIT && id == 0; ++tries) {
      const std::uint32_t candidate = m_next_signal;
      m_next_signal = m_next_signal % (KFD_SIGNAL_EVENT_LIMIT - 1) + 1;
      if (!m_events.contains(candidate)) id = candidate;
    }
  } else {
    id = k_first_other + m_next_other++;
  }
  if (id == 0) return {0, 0};
  Event& event = m_events[id];
  event.type = type;
  event.auto_reset = auto_reset;
  return {id, has_slot(type) ? id : 0};
}

void EventTable::signal(Event& event) {
  event.signaled = !event.auto_reset || event.waiters.empty();
  ++event.age;
}

bool EventTable::destroy(std::uint32_t id) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_events.find(id);
  if (found == m_events.end()) return false;
  for (Waiter* waiter : found->second.waiters) {
    waiter->gone = true;
    waiter->wake.notify_one();
  }
  m_events.erase(found);
  return true;
}

bool EventTable::set(std::uint32_t id) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_events.find(id);
  if (found == m_events.end()) return false;
  Event& event = found->second;
  signal(event);
  for (Waiter* waiter : event.waiters) {
    for (std::size_t i = 0; i < waiter->ids.size(); ++i) {
      if (waiter->ids[i] == id) waiter->done[i] = true;
    }
    waiter->set = true;
    waiter->wake.notify_one();
  }
  return true;
}

bool EventTable::reset(std::uint32_t id) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_events.find(id);
  if (found == m_events.end()) return false;
  found->second.signaled = false;
  return true;
}

void EventTable::interrupt(std::uint32_t m0) {
  // The driver looks through the signal page for slots that match; a spurious wake-up is harmless, a lost one is not.
  std::vector<std::uint32_t> ids;
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& [id, event] : m_events) {
      if (id < k_first_other && (id & 0xFF) == (m0 & 0xFF)) ids.push_back(id);
    }
  }
  for (const std::uint32_t id : ids) set(id);
}

void EventTable::memory_exception(std::uint32_t gpu_id, std::uint64_t address, bool read_only, bool no_execute) {
  std::vector<std::uint32_t> ids;
  {
    const std::lock_guard lock(m_mutex);
    for (auto& [id, event] : m_events) {
      if (event.type != KFD_IOC_EVENT_MEMORY) continue;
      event.memory = {};
      event.memory.failure.NotPresent = !read_only && !no_execute;
      event.memory.failure.ReadOnly = read_only;
      event.memory.failure.NoExecute = no_execute;
      event.memory.va = address;
      event.memory.gpu_id = gpu_id;
      ids.push_back(id);
    }
  }
  for (const std::uint32_t id : ids) set(id);
}

void EventTable::hardware_exception(std::uint32_t gpu_id) {
  std::vector<std::uint32_t> ids;
  {
    const std::lock_guard lock(m_mutex);
    for (auto& [id, event] : m_events) {
      if (event.type != KFD_IOC_EVENT_HW_EXCEPTION) continue;
      event.hardware = {};
      event.hardware.reset_type = KFD_HW_EXCEPTION_PER_ENGINE_RESET;
      event.hardware.reset_cause = KFD_HW_EXCEPTION_GPU_HANG;
      event.hardware.gpu_id = gpu_id;
      ids.push_back(id);
    }
  }
  for (const std::uint32_t id : ids) set(id);
}

std::uint32_t EventTable::wait(std::span<kfd_event_data> wanted, bool all, std::uint32_t timeout_ms) {
  std::unique_lock lock(m_mutex);
  Waiter waiter;
  waiter.done.assign(wanted.size(), false);
  for (const kfd_event_data& data : wanted) {
    if (!m_events.contains(data.event_id)) return KFD_IOC_WAIT_RESULT_FAIL;
    waiter.ids.push_back(data.event_id);
  }
  bool is_news = false, is_old = false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Event& event = m_events[waiter.ids[i]];
    waiter.done[i] = event.signaled;
    is_news |= event.signaled;
    if (event.auto_reset) event.signaled = false;
    const std::uint64_t known_age = wanted[i].signal_event_data.last_event_age;
    if (event.type == KFD_IOC_EVENT_SIGNAL && known_age != 0 && known_age != event.age) {
      waiter.done[i] = true;
      const bool was_told = event.told == std::this_thread::get_id() && event.told_age == event.age;
      (was_told ? is_old : is_news) = true;
      event.told = std::this_thread::get_id();
      event.told_age = event.age;
    }
  }
  // Only where one event is enough: a thread that waits for all has no reason to ask again.
  const bool asks_again = is_old && !is_news && !all && timeout_ms != 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!waiter.done[i] || asks_again) m_events[waiter.ids[i]].waiters.push_back(&waiter);
  }

  const auto finished = [&] {
    const auto happened = std::count(waiter.done.begin(), waiter.done.end(), true);
    return waiter.gone || (all ? happened == static_cast<std::ptrdiff_t>(wanted.size()) : happened > 0);
  };
  if (asks_again) waiter.wake.wait_for(lock, k_asked_again, [&] { return waiter.set || waiter.gone; });
  bool complete = true;
  if (timeout_ms >= k_infinite_ms) {
    waiter.wake.wait(lock, finished);
  } else {
    complete = waiter.wake.wait_for(lock, std::chrono::milliseconds(timeout_ms), finished);
  }

  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto found = m_events.find(waiter.ids[i]);
    if (found == m_events.end()) continue;
    Event& event = found->second;
    std::erase(event.waiters, &waiter);
    if (!waiter.done[i]) continue;
    if (event.type == KFD_IOC_EVENT_MEMORY) wanted[i].memory_exception_data = event.memory;
    if (event.type == KFD_IOC_EVENT_HW_EXCEPTION) wanted[i].hw_exception_data = event.hardware;
    if (event.type == KFD_IOC_EVENT_SIGNAL && wanted[i].signal_event_data.last_event_age != 0) {
      wanted[i].signal_event_data.last_event_age = event.age;
    }
  }
  if (waiter.gone) return KFD_IOC_WAIT_RESULT_FAIL;
  return complete ? KFD_IOC_WAIT_RESULT_COMPLETE : KFD_IOC_WAIT_RESULT_TIMEOUT;
}

}  // namespace kerncap::softgpu
