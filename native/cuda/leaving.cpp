// The program's thread finds the moment; ours waits for it, for so long.
#include "cuda/leaving.hpp"

#include <time.h>

#include <cstdlib>

#include "cuda/api.hpp"
#include "cuda/callbacks.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

constexpr std::chrono::seconds k_longest_wait{2};
constexpr std::chrono::milliseconds k_look_every{1};
// Until whoever was on the way into a callback has come to where it is seen.
constexpr timespec k_grace{0, 1'000'000};
constexpr std::uint32_t k_first_tried_cupti = 130000;

bool is_of_a_version_that_was_tried() noexcept {
  std::uint32_t version = 0;
  return cupti().cuptiGetVersion(&version) == CUPTI_SUCCESS && version >= k_first_tried_cupti;
}

// Of kernels, as CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: CUPTI tells nobody what it was asked for, but refuses the other kind beside it.
// Where nobody takes them, that other kind is taken from here on.
bool others_take_records() noexcept { return cupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL) != CUPTI_SUCCESS; }

}  // namespace

Leaving::Leaving(OwnProcess& own) noexcept : m_own(own), m_keeps_cupti(std::getenv("KERNCAP_KEEP_CUPTI") != nullptr) {}

void Leaving::leave() noexcept {
  std::unique_lock lock(m_mutex);
  if (!m_ends && !m_keeps_cupti && m_own.caller.load() != &m_own && is_of_a_version_that_was_tried()) {
    m_own.leaving.store(true);
    m_decided.wait_for(lock, k_longest_wait, [this] { return !m_own.leaving.load(); });
    m_own.leaving.store(false);
  }
  if (m_is_gone || m_ends) return;
  lock.unlock();
  unsubscribe();
}

void Leaving::look() noexcept {
  const Inside inside;
  if (is_alone()) {
    const auto now = std::chrono::steady_clock::now();
    if (now < m_next_look) return;
    m_next_look = now + k_look_every;
    const RelaxedMode relaxed;
    if (!tool()->streams.are_at_rest()) return;
  }
  const std::lock_guard lock(m_mutex);
  if (!m_own.leaving.load()) return;   // our own thread has waited long enough
  m_is_gone = is_alone() && take_cupti_away();
  if (m_is_gone) m_own.enabled.store(false);
  decide();
}

void Leaving::give_up() noexcept {
  if (!m_own.is_ours.load()) return;   // a child: nobody would unlock what was locked when it was made
  const std::lock_guard lock(m_mutex);
  m_ends = true;
  decide();
}

bool Leaving::is_alone() const noexcept { return m_own.caller.load() == &this_thread(); }

bool Leaving::take_cupti_away() noexcept {
  if (others_take_records()) return false;
  watch_nothing();
  ::nanosleep(&k_grace, nullptr);
  if (is_alone() && cupti().cuptiFinalize() == CUPTI_SUCCESS) return true;
  cupti().cuptiActivityDisable(CUPTI_ACTIVITY_KIND_KERNEL);
  return false;
}

void Leaving::decide() noexcept {
  m_own.leaving.store(false);
  m_decided.notify_all();
}

}  // namespace kerncap::cuda
