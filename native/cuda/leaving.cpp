// The program's thread finds the moment; ours waits for it.
#include "cuda/leaving.hpp"

#include <cstdlib>
#include <string_view>
#include <thread>

#include "cuda/api.hpp"
#include "cuda/callbacks.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

constexpr std::chrono::seconds k_longest_wait{2};
constexpr std::chrono::milliseconds k_look_every{1};
// In which a thread that was on its way into a callback comes to where it is seen.
constexpr std::chrono::milliseconds k_grace{1};
constexpr std::uint32_t k_least_version = 130000;

bool is_new_enough() noexcept {
  std::uint32_t version = 0;
  return cupti().cuptiGetVersion(&version) == CUPTI_SUCCESS && version >= k_least_version;
}

// Of kernels, as CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: CUPTI tells nobody what it was asked for, but refuses the other kind beside it.
// Where nobody takes them, that other kind is taken from here on. It does not find who takes that one, or other records.
bool others_take_records() noexcept { return cupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL) != CUPTI_SUCCESS; }

}  // namespace

Leaving::Leaving(OwnProcess& own) noexcept : m_own(own) {
  const char* keeps = std::getenv("KERNCAP_KEEP_CUPTI");
  m_keeps_cupti = keeps != nullptr && std::string_view(keeps) != "" && std::string_view(keeps) != "0";
}

void Leaving::leave() noexcept {
  std::unique_lock lock(m_mutex);
  if (!m_ends && !m_keeps_cupti && m_own.caller.load() != &m_own && is_new_enough()) {
    m_own.leaving.store(true);
    m_decided.wait_for(lock, k_longest_wait, [this] { return !m_own.leaving.load(); });
    m_own.leaving.store(false);
  }
  if (m_is_gone || m_ends) return;
  lock.unlock();
  unsubscribe();
}

bool Leaving::look() noexcept {
  const Inside inside;
  const RelaxedMode relaxed;
  if (is_alone()) {
    const auto now = std::chrono::steady_clock::now();
    if (now < m_next_look) return false;
    m_next_look = now + k_look_every;
    if (!tool()->streams.are_at_rest()) return false;
  }
  // Who is not alone does not wait in a callback for one that calls CUPTI.
  const std::unique_lock lock(m_mutex, std::try_to_lock);
  if (!lock || !m_own.leaving.load()) return false;   // somebody else decides, or our own thread has waited long enough
  m_is_gone = is_alone() && take_cupti_away();
  if (m_is_gone) m_own.enabled.store(false);
  decide();
  return m_is_gone;
}

void Leaving::program_ends() noexcept {
  // In a child nobody would unlock what was locked when it was made; nor would a thread that a signal has brought here from look().
  if (!m_own.is_ours.load() || Inside::is()) return;
  const std::lock_guard lock(m_mutex);
  m_ends = true;
  decide();
}

bool Leaving::is_alone() const noexcept { return m_own.caller.load() == &this_thread(); }

// All that fails here ends with unsubscribe().
bool Leaving::take_cupti_away() noexcept {
  watch_nothing();
  std::this_thread::sleep_for(k_grace);
  if (!is_alone() || !tool()->streams.are_at_rest() || others_take_records()) return false;
  if (cupti().cuptiFinalize() == CUPTI_SUCCESS) return true;
  cupti().cuptiActivityDisable(CUPTI_ACTIVITY_KIND_KERNEL);
  return false;
}

void Leaving::decide() noexcept {
  m_own.leaving.store(false);
  m_decided.notify_all();
}

}  // namespace kerncap::cuda
