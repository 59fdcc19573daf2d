// The program's streams, so that all of them can be waited for without blocking for ever in the driver.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"
#include "cuda/polling.hpp"

namespace kerncap::cuda {

class Streams {
 public:
  using Contexts = std::map<CUcontext, std::vector<CUstream>>;

  void context_created(CUcontext context) noexcept;
  void context_destroyed(CUcontext context) noexcept;
  void created(CUcontext context, CUstream stream) noexcept;
  void destroyed(CUstream stream) noexcept;
  // Before it is: work of it may go on, which no stream tells of any more.
  void given_up(CUstream stream) noexcept;
  // Numbered as the program made them; 0 is the default stream.
  [[nodiscard]] std::uint32_t index_of(CUstream stream) const noexcept;
  // That it was made in; none where nobody knows, as of the default streams.
  [[nodiscard]] std::optional<CUcontext> context_of(CUstream stream) const noexcept;
  // None of a context that nobody knows.
  [[nodiscard]] std::optional<std::uint32_t> device_of(CUcontext context) const noexcept;
  // True also of a stream that is in no list.
  [[nodiscard]] bool is_of_current_device(CUstream stream) const noexcept;
  // Everything that was submitted to the device has ended, by whichever of its contexts: green contexts share memory.
  // Streams on which a graph is recorded hold no work that runs, and are passed over; where one of them makes it impossible
  // to wait for the others, that is an error, and the recording is not touched.
  [[nodiscard]] core::Result<void> drain(std::uint32_t device, Deadline deadline) const noexcept;
  // The same of all devices that the process uses.
  [[nodiscard]] core::Result<void> drain_all(Deadline deadline) const noexcept;
  // Whether all that other devices were given has ended by then. Makes no call that could wait in the driver: there is nothing to be had for it.
  [[nodiscard]] bool others_come_to_rest(std::uint32_t device, Deadline deadline) const noexcept;
  // The process uses another device, too.
  [[nodiscard]] bool has_others(std::uint32_t device) const noexcept;
  // Nothing runs, or waits to, in any context. False also where that is not certain: without a context, while a graph is recorded.
  [[nodiscard]] bool are_at_rest() const noexcept;

 private:
  struct Known {
    CUcontext context;
    std::uint32_t index;
  };
  core::Result<void> drain_context(CUcontext context, std::vector<CUstream> streams, bool is_recorded, Deadline deadline) const noexcept;
  [[nodiscard]] Contexts contexts_of(std::optional<std::uint32_t> device) const;   // none: of all

  mutable std::mutex m_mutex;
  std::map<CUcontext, std::uint32_t> m_contexts;   // their devices
  std::map<CUstream, Known> m_streams;
  mutable std::set<CUcontext> m_unlisted_work;   // whose streams were given up while they worked, since all of it was waited for
  std::uint32_t m_next = 1;
  std::atomic<bool> m_has_unlisted{false};         // a context, of an unknown device
};

// The thread's current context while it lives. Green contexts cannot be entered so.
class Entered {
 public:
  explicit Entered(CUcontext context) noexcept;
  ~Entered();
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  explicit operator bool() const noexcept { return m_is_entered; }

 private:
  bool m_is_entered;
};

// While it lives, this thread may make the calls that a recording in global mode forbids to all threads. Without it such a
// call of ours fails, and spoils the program's recording.
class RelaxedMode {
 public:
  RelaxedMode() noexcept;
  ~RelaxedMode();
  RelaxedMode(const RelaxedMode&) = delete;
  RelaxedMode& operator=(const RelaxedMode&) = delete;

 private:
  CUstreamCaptureMode m_mode = CU_STREAM_CAPTURE_MODE_RELAXED;   // then what was before
  bool m_is_set = false;                                         // not before the driver has started
};

// A graph is being recorded on this stream: nothing runs, and most calls would spoil the recording.
[[nodiscard]] bool is_recording(CUstream stream) noexcept;

}  // namespace kerncap::cuda
