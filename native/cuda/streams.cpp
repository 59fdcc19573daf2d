// Waits by asking, as a wait inside the driver cannot be given up.
#include "cuda/streams.hpp"

#include <time.h>

#include <algorithm>
#include <vector>

#include "cuda/api.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

Result<void> wait_for(CUstream stream, Streams::Deadline deadline) noexcept {
  timespec pause{0, 2'000};
  for (;;) {
    const CUresult status = driver().cuStreamQuery(stream);
    if (status == CUDA_SUCCESS) return {};
    if (status != CUDA_ERROR_NOT_READY) return Error{ErrorCode::device, describe("waiting for a stream", status)};
    if (std::chrono::steady_clock::now() > deadline) {
      return Error{ErrorCode::timeout, "work that was submitted before did not end in time"};
    }
    ::nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(pause.tv_nsec * 2, 200'000L);
  }
}

}  // namespace

bool is_recording(CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = driver().cuStreamIsCapturing(stream, &status);
  // The default stream may not be asked while another one records: then nothing is recorded on it.
  return asked == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
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

Result<void> Streams::drain(CUcontext context, Deadline deadline) const noexcept {
  std::vector<CUstream> streams{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& [stream, known] : m_streams) {
      if (known.context == context) streams.push_back(stream);
    }
  }
  bool recording = false;
  for (const CUstream stream : streams) {
    if (stream != CU_STREAM_LEGACY && is_recording(stream)) {
      recording = true;
      continue;
    }
    if (recording && stream == CU_STREAM_LEGACY) continue;
    if (Result<void> done = wait_for(stream, deadline); !done) return done;
  }
  // Per-thread default streams of other threads are in nobody's list. By now there is little left to wait for.
  if (recording) return {};
  return checked("waiting for the device", driver().cuCtxSynchronize());
}

}  // namespace kerncap::cuda
