// All waits for the program's work are by polling.hpp, so that they can be given up.
#include "cuda/streams.hpp"

#include <pthread.h>

#include <algorithm>
#include <future>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/no_signals.hpp"
#include "cuda/api.hpp"
#include "cuda/polling.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

Result<void> ended(CUresult status) noexcept {
  if (status == CUDA_ERROR_NOT_READY) return Error{ErrorCode::timeout, "work that was submitted before did not end in time"};
  return checked("waiting for a stream", status);
}

Result<void> wait_for(CUstream stream, Deadline deadline) noexcept {
  return ended(poll(stream, deadline));
}

// What has come, by then, of all that was submitted to the current context, on whichever stream; nothing where the driver cannot tell.
std::optional<CUresult> ask_all(CUcontext context, Deadline deadline) noexcept {
  CUevent event = nullptr;
  if (driver().cuCtxRecordEvent == nullptr || driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return std::nullopt;
  std::optional<CUresult> status;
  if (driver().cuCtxRecordEvent(context, event) == CUDA_SUCCESS) status = poll(event, deadline);
  driver().cuEventDestroy_v2(event);
  return status;
}

// The same where the driver can only wait: a thread of ours does, and stays there if the work never ends.
CUresult synchronize(CUcontext context, Deadline deadline) noexcept {
  std::promise<CUresult> promise;
  std::future<CUresult> ended = promise.get_future();
  try {
    const core::NoSignals of_the_program;
    std::thread([context, promise = std::move(promise)]() mutable {
      pthread_setname_np(pthread_self(), "kc-capture");
      const Inside inside;
      const RelaxedMode relaxed;
      const CUresult entered = driver().cuCtxSetCurrent(context);
      promise.set_value(entered == CUDA_SUCCESS ? driver().cuCtxSynchronize() : entered);
    }).detach();
  } catch (const std::system_error&) {
    return CUDA_ERROR_OPERATING_SYSTEM;   // the process may have no more threads
  }
  return ended.wait_until(deadline) == std::future_status::ready ? ended.get() : CUDA_ERROR_NOT_READY;
}

Result<void> wait_for_all(CUcontext context, Deadline deadline) noexcept {
  const std::optional<CUresult> status = ask_all(context, deadline);
  return ended(status ? *status : synchronize(context, deadline));
}

Result<void> drain_streams(const std::vector<CUstream>& streams, Deadline deadline) noexcept {
  for (const CUstream stream : streams) {
    if (is_recording(stream)) continue;
    if (Result<void> done = wait_for(stream, deadline); !done) return done;
  }
  return {};
}

// On a stream of the current context that is not made non-blocking, or on a thread's own default stream, wherever: the
// driver's answer to this question alone leaves the recording whole.
bool records_on_blocking_stream() noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver().cuStreamIsCapturing(CU_STREAM_LEGACY, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

bool is_any_recorded(const Streams::Contexts& contexts) noexcept {
  return std::any_of(contexts.begin(), contexts.end(), [](const auto& item) {
    return std::any_of(item.second.begin(), item.second.end(), is_recording);
  });
}

// Of the current context: asks its streams first, as to make or to submit something may wait for as long as one of them runs. Those that
// threads have of their own are in nobody's list.
bool is_at_rest(CUcontext context, const std::vector<CUstream>& streams) noexcept {
  constexpr auto k_is_idle = [](CUstream stream) { return driver().cuStreamQuery(stream) == CUDA_SUCCESS; };
  constexpr Deadline k_over{};   // asked once
  return k_is_idle(CU_STREAM_LEGACY) && std::all_of(streams.begin(), streams.end(), k_is_idle) && ask_all(context, k_over) == CUDA_SUCCESS;
}

}  // namespace

Entered::Entered(CUcontext context) noexcept : m_is_entered(driver().cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {}

Entered::~Entered() {
  CUcontext popped = nullptr;
  if (m_is_entered) driver().cuCtxPopCurrent_v2(&popped);
}

RelaxedMode::RelaxedMode() noexcept { m_is_set = driver().cuThreadExchangeStreamCaptureMode(&m_mode) == CUDA_SUCCESS; }

RelaxedMode::~RelaxedMode() {
  if (m_is_set) driver().cuThreadExchangeStreamCaptureMode(&m_mode);
}

bool is_recording(CUstream stream) noexcept {
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return false;   // nothing is ever recorded on it
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = driver().cuStreamIsCapturing(stream, &status);
  return asked == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void Streams::context_created(CUcontext context) noexcept {
  std::uint32_t device = 0;
  if (cupti().cuptiGetDeviceId(context, &device) != CUPTI_SUCCESS) {
    m_has_unlisted.store(true);
    return;
  }
  const std::lock_guard lock(m_mutex);
  m_contexts[context] = device;
}

void Streams::context_destroyed(CUcontext context) noexcept {
  const std::lock_guard lock(m_mutex);
  m_contexts.erase(context);
  m_unlisted_work.erase(context);
  std::erase_if(m_streams, [context](const auto& item) { return item.second.context == context; });
}

void Streams::created(CUcontext context, CUstream stream) noexcept {
  const std::lock_guard lock(m_mutex);
  m_streams[stream] = {context, m_next++};
}

void Streams::destroyed(CUstream stream) noexcept {
  const std::lock_guard lock(m_mutex);
  m_streams.erase(stream);
}

std::uint32_t Streams::index_of(CUstream stream) const noexcept {
  const std::lock_guard lock(m_mutex);
  const auto found = m_streams.find(stream);
  return found == m_streams.end() ? 0 : found->second.index;
}

std::optional<CUcontext> Streams::context_of(CUstream stream) const noexcept {
  const std::lock_guard lock(m_mutex);
  const auto known = m_streams.find(stream);
  return known == m_streams.end() ? std::nullopt : std::optional(known->second.context);
}

std::optional<std::uint32_t> Streams::device_of(CUcontext context) const noexcept {
  const std::lock_guard lock(m_mutex);
  const auto known = m_contexts.find(context);
  return known == m_contexts.end() ? std::nullopt : std::optional(known->second);
}

bool Streams::is_of_current_device(CUstream stream) const noexcept {
  CUdevice current = 0;
  if (driver().cuCtxGetDevice(&current) != CUDA_SUCCESS) return true;
  const std::lock_guard lock(m_mutex);
  const auto known = m_streams.find(stream);
  if (known == m_streams.end()) return true;
  const auto home = m_contexts.find(known->second.context);
  return home == m_contexts.end() || home->second == static_cast<std::uint32_t>(current);
}

Streams::Contexts Streams::contexts_of(std::optional<std::uint32_t> device) const {
  Contexts contexts;
  const std::lock_guard lock(m_mutex);
  for (const auto& [context, owner] : m_contexts) {
    if (!device || owner == *device) contexts[context];
  }
  for (const auto& [stream, known] : m_streams) {
    if (const auto found = contexts.find(known.context); found != contexts.end()) found->second.push_back(stream);
  }
  return contexts;
}

bool Streams::are_at_rest() const noexcept {
  const Contexts contexts = contexts_of(std::nullopt);
  // While a graph is recorded nobody may ask for all of a context.
  if (contexts.empty() || m_has_unlisted.load() || is_any_recorded(contexts)) return false;
  return std::all_of(contexts.begin(), contexts.end(), [](const auto& item) {
    const Entered entered(item.first);
    return entered && !records_on_blocking_stream() && is_at_rest(item.first, item.second);
  });
}

void Streams::given_up(CUstream stream) noexcept {
  const std::optional<CUcontext> home = context_of(stream);
  if (!home) return;   // not a stream
  const Inside inside;
  const RelaxedMode relaxed;
  // Whether one on which a graph is recorded has work from before, cannot be asked.
  if (!is_recording(stream) && driver().cuStreamQuery(stream) != CUDA_ERROR_NOT_READY) return;
  const std::lock_guard lock(m_mutex);
  m_unlisted_work.insert(*home);
}

bool Streams::has_others(std::uint32_t device) const noexcept {
  const std::lock_guard lock(m_mutex);
  return m_has_unlisted.load() || std::any_of(m_contexts.begin(), m_contexts.end(), [device](const auto& item) { return item.second != device; });
}

// Of the current context, with its default streams. Those that each thread has of its own are in nobody's list.
Result<void> Streams::drain_context(CUcontext context, std::vector<CUstream> streams, bool is_recorded, Deadline deadline) const noexcept {
  if (records_on_blocking_stream()) {
    return Error{ErrorCode::unsupported,
                 "a CUDA graph is being recorded on a stream that is not cudaStreamNonBlocking: until that has ended, nobody "
                 "can wait for the default stream; take a dispatch that is launched when nothing is recorded (--dispatch)"};
  }
  if (Result<void> done = wait_for(CU_STREAM_LEGACY, deadline); !done) return done;
  // No call that waits for all of a context may be made while a graph is recorded in it: of the threads' own streams, there
  // is this thread's to be asked. Who asks for it has it made, and a child that the program forks then faults in exit(), in
  // the driver's handler (seen with 580).
  if (is_recorded) streams.push_back(CU_STREAM_PER_THREAD);
  if (Result<void> done = drain_streams(streams, deadline); !done) return done;
  if (is_recorded) {
    const std::lock_guard lock(m_mutex);
    if (!m_unlisted_work.contains(context)) return {};
    return Error{ErrorCode::unsupported,
                 "a stream was given up while it worked, and a CUDA graph is being recorded: until that has ended, nobody can wait "
                 "for such work; take a dispatch that is launched when nothing is recorded (--dispatch)"};
  }
  Result<void> done = wait_for_all(context, deadline);
  const std::lock_guard lock(m_mutex);
  if (done) m_unlisted_work.erase(context);
  return done;
}

Result<void> Streams::drain(std::uint32_t device, Deadline deadline) const noexcept {
  const Contexts contexts = contexts_of(device);
  // Anywhere on the device: green contexts belong to one that is asked with them.
  const bool is_recorded = is_any_recorded(contexts);
  for (const auto& [context, streams] : contexts) {
    const Entered entered(context);
    // The streams of one that cannot be entered can be asked from anywhere.
    const Result<void> done = entered ? drain_context(context, streams, is_recorded, deadline) : drain_streams(streams, deadline);
    if (!done) return done;
  }
  return {};
}

Result<void> Streams::drain_all(Deadline deadline) const noexcept {
  std::set<std::uint32_t> devices;
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& [context, device] : m_contexts) devices.insert(device);
  }
  for (const std::uint32_t device : devices) {
    if (Result<void> done = drain(device, deadline); !done) return done;
  }
  return {};
}

bool Streams::others_come_to_rest(std::uint32_t device, Deadline deadline) const noexcept {
  for (const auto& [context, streams] : contexts_of(std::nullopt)) {
    if (device_of(context) == device) continue;
    const Entered entered(context);
    if (entered && (records_on_blocking_stream() || !wait_for(CU_STREAM_LEGACY, deadline))) return false;
    if (!drain_streams(streams, deadline)) return false;
    const std::lock_guard lock(m_mutex);
    if (m_unlisted_work.contains(context)) return false;
  }
  return true;
}

}  // namespace kerncap::cuda
