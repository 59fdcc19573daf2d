#include "cuda/leaving.hpp"

#include "cuda/api.hpp"
#include "cuda/callbacks.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

constexpr std::chrono::seconds k_longest_wait{10};
constexpr std::chrono::milliseconds k_look_every{1};
// Of CUDA 12.6: before it, programs with graphs could crash behind cuptiFinalize().
constexpr std::uint32_t k_first_good_cupti = 24;

bool can_be_taken_away() noexcept {
  std::uint32_t version = 0;
  return cupti().cuptiGetVersion(&version) == CUPTI_SUCCESS && version >= k_first_good_cupti;
}

// Somebody in the program takes records of kernels, without a subscriber. CUPTI does not tell, but refuses this kind beside the usual
// one. Where nobody does, it is asked for from here on: cuptiFinalize() has to follow.
bool is_used_by_others() noexcept { return cupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL) != CUPTI_SUCCESS; }

}  // namespace

void Leaving::leave() noexcept {
  if (can_be_taken_away() && m_own.caller.load() != &m_own) {
    watch_waits();
    std::unique_lock lock(m_mutex);
    m_own.leaving.store(true);
    m_decided.wait_for(lock, k_longest_wait, [this] { return !m_own.leaving.load(); });
    m_own.leaving.store(false);
    if (m_is_gone) return;
  }
  unsubscribe();
}

void Leaving::at_exit() noexcept {
  if (m_own.caller.load(std::memory_order_relaxed) != &this_thread()) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < m_next_look) return;
  m_next_look = now + k_look_every;
  const Inside inside;
  const RelaxedMode relaxed;
  if (!tool()->streams.are_at_rest()) return;
  const std::lock_guard lock(m_mutex);
  if (!m_own.leaving.load()) return;   // our own thread has waited long enough
  m_is_gone = !is_used_by_others() && cupti().cuptiFinalize() == CUPTI_SUCCESS;
  if (m_is_gone) m_own.enabled.store(false);
  m_own.leaving.store(false);
  m_decided.notify_all();
}

}  // namespace kerncap::cuda
