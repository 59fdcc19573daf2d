// Hands captures over, and lets the library leave once nothing is wanted any more.
#include "cuda/sender.hpp"

#include <pthread.h>

#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "capture/selection.hpp"
#include "core/no_signals.hpp"
#include "cuda/api.hpp"
#include "cuda/endings.hpp"
#include "cuda/states.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::chrono::milliseconds k_look_again{1};

}  // namespace

// False where the process may have no more threads.
bool Sender::start_thread() noexcept {
  try {
    const core::NoSignals of_the_program;
    std::thread([this] { run(); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  // Handlers run in reverse order, and the driver makes its own when it has started: these have to come after.
  constexpr auto k_finish = [] {
    tool()->leaving.program_ends();
    tool()->snapshots.sender().finish();
  };
  std::atexit(k_finish);
  std::at_quick_exit(k_finish);
  return true;
}

void Sender::take(std::unique_ptr<Job> job) noexcept {
  {
    const std::lock_guard lock(m_mutex);
    if (!m_has_started) m_has_started = start_thread();
    if (!job->is_sent) hold_endings(true);
    ++m_unsent;
    m_begun.fetch_sub(1);
    if (m_has_started) m_taken.push_back(std::move(job));
    m_changed.notify_all();
  }
  if (job != nullptr) deliver(std::move(job));
}

void Sender::dismiss() noexcept {
  const std::lock_guard lock(m_mutex);
  if (!m_has_started) m_has_started = start_thread();
  m_begun.fetch_sub(1);
  m_has_dismissed = true;
  m_changed.notify_all();
}

void Sender::deliver(std::unique_ptr<Job> job) noexcept {
  driver().cuCtxSetCurrent(job->context);
  if (!job->is_sent) {
    Result<void> sent = send_kept(job->engines->sender, *job);
    if (sent && !m_collector.done(*job)) sent = Error{ErrorCode::io, "the collector is gone"};
    if (!sent) m_collector.failed(*job, sent.error());
  }
  release(*job, job->engines->sender);
  const std::lock_guard lock(m_mutex);
  if (--m_unsent == 0) hold_endings(false);
  m_changed.notify_all();
}

void Sender::run() noexcept {
  pthread_setname_np(pthread_self(), "kc-capture");
  const Inside inside;
  const RelaxedMode relaxed;
  for (;;) {
    std::unique_ptr<Job> job;
    {
      std::unique_lock lock(m_mutex);
      const auto has_come = [this] { return !m_taken.empty() || m_has_dismissed; };
      // Nobody says so when a launch that was only counted, and stood in the way of leaving, has gone on.
      if (all_taken()) {
        m_changed.wait_for(lock, k_look_again, has_come);
      } else {
        m_changed.wait(lock, has_come);
      }
      m_has_dismissed = false;
      if (!m_taken.empty()) {
        job = std::move(m_taken.front());
        m_taken.pop_front();
      }
    }
    if (job != nullptr) deliver(std::move(job));
    // Nothing is wanted any more: from here on the program runs as if we were not there.
    if (all_taken() && is_idle()) {
      tool()->leaving.leave();
      return;
    }
  }
}

// No dispatch is being taken or waits to be sent. Asked after all_taken(): a dispatch that was counted there is begun
// here, or has been handed over.
bool Sender::is_idle() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (m_begun.load() != 0) return false;
  const std::lock_guard lock(m_mutex);
  return m_unsent == 0;
}

// Every rule has seen the last of the dispatches that it wants.
bool Sender::all_taken() noexcept {
  capture::Channel& channel = *tool()->channel;
  const auto rules = channel.rules();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!capture::is_over(rules[i], channel.control().matched[i].load(std::memory_order_relaxed))) return false;
  }
  return true;
}

// Not in a child, where nobody sends and nobody would ever unlock what was locked then.
bool Sender::is_sending() const noexcept {
  return m_own.is_ours.load() && m_unsent.load() != 0 && tool()->channel->connected();
}

void Sender::finish() noexcept {
  if (!is_sending()) return;
  const Inside inside;
  std::unique_lock lock(m_mutex);
  m_changed.wait(lock, [this] { return !is_sending(); });
}

void Sender::make_room(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t k_margin_bytes = 64ull << 20;   // of granules, and of the driver's own
  if (bytes == 0 || !is_sending()) return;
  const Inside inside;
  const RelaxedMode relaxed;
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  if (driver().cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS && free_bytes < bytes + k_margin_bytes) finish();
}

void Sender::release(Job& job, Copier& last) noexcept {
  last.free(job.pre);
  last.free(job.post);
  job.pre = job.post = 0;
  for (CUevent event : {job.before, job.after}) {
    if (event != nullptr) driver().cuEventDestroy_v2(event);
  }
}

}  // namespace kerncap::cuda
