// What a back end does for a capture, and who hears of it. `Course` and `Session` say when, and know no GPU API; the
// back end says how, and knows nothing of the order. None of these functions throws. What waits gets a limit, which holds
// for each of its waits: it ends by then with ErrorCode::timeout, and at once where `Session::ends()` has turned true.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "capture/messages.hpp"
#include "core/result.hpp"

namespace kerncap::capture {

using Clock = std::chrono::steady_clock;
using Limit = std::chrono::milliseconds;

// Why a wait ends where `Session::ends()` has turned true.
inline constexpr const char* k_runtime_ends = "the program shut the runtime down";

// Why a copy ends where `Session::is_overtaken()` has turned true: a device asks for each piece of memory.
inline constexpr const char* k_overtaken = "a call of the program that takes memory away, or copies, could wait no longer";

// Why one ends where the collector does not listen.
inline constexpr const char* k_stalled = "the collector took no more data";

// A dispatch that is wanted. The back end derives from it what it needs: its queue, packets, signals.
struct Dispatch {
  virtual ~Dispatch() = default;
  std::uint64_t number = 0;       // the session's: unique in the process, ascends as dispatches are submitted
  Clock::time_point begun{};      // the session's
  bool owes_completion = false;   // the program's own signal is not completed yet
  Clock::time_point held_since{}; // the course's
  messages::Cost cost{};          // likewise
};

inline std::uint64_t ns_since(Clock::time_point begin) noexcept {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
}

enum class State { pre, post };

// The steps of a course, called from the thread on which it runs.
class Device {
 public:
  virtual ~Device() = default;

  // Makes ready to copy, and holds all that could run beside the dispatch. Returns when it stands still; `stopped`:
  // dispatches in front of which a queue does so already. Waits.
  virtual core::Result<void> hold(Dispatch& dispatch, const std::vector<const Dispatch*>& stopped,
                                  Limit limit) noexcept = 0;
  // Waits until what the program had begun before has ended, as copies.
  virtual core::Result<void> drain(Dispatch& dispatch, Limit limit) noexcept = 0;
  // Lists the memory that the kernel could reach and tells the collector of the dispatch. None of it goes until the
  // capture is over. Waits.
  virtual core::Result<void> describe(Dispatch& dispatch, Limit limit) noexcept = 0;
  // Takes the state of what was listed: it is with the collector, or is kept for hand_over(). How many bytes that is.
  // Waits.
  virtual core::Result<std::uint64_t> copy(Dispatch& dispatch, State state, Limit limit) noexcept = 0;
  // Whether nothing that is held has gone on since hold(). Asked once the state has been taken.
  virtual core::Result<void> undisturbed(const Dispatch& dispatch, State state) noexcept = 0;
  // By the device's clock; the kernel has ended.
  [[nodiscard]] virtual std::uint64_t duration_ns(const Dispatch& dispatch) noexcept = 0;
  // Sends what copy() has kept. False: that is done later, and the device itself then tells the listener.
  virtual core::Result<bool> hand_over(Dispatch&) noexcept { return true; }
};

// How far the device has come with a dispatch.
struct Progress {
  bool reached = false;     // all earlier work of its queue is done: it waits for go()
  bool ended = false;       // the kernel has ended
  bool left = false;        // the device has passed the last of our packets around it
  bool gives_back = false;  // the program gives the queue back: the dispatch may never be reached
  bool destroyed = false;   // the queue is no more: nothing of it will change
};

// A device whose dispatches wait in its own queues until a session comes to them: called from the session's thread,
// unless they say otherwise. hold() holds all queues but the dispatch's own, until release(); those that are made later are
// held by who makes them. The session defers copies of the program behind drain(), and keeps what it frees behind that.
class QueuedDevice : public Device {
 public:
  // A look; never waits.
  [[nodiscard]] virtual Progress look(const Dispatch& dispatch) noexcept = 0;
  // Lets the kernel run. May come twice: the second time changes nothing.
  virtual void go(Dispatch& dispatch) noexcept = 0;
  // Completes the program's own signal, with the device's times. Once, after `ended`; from the thread that runs
  // settle(), too.
  virtual void complete(Dispatch& dispatch) noexcept = 0;
  // Lets all go on that is held for it. Once for each dispatch, also where hold() was not called.
  virtual void release(Dispatch& dispatch) noexcept = 0;
  // The dispatch has left, or its queue is no more: gives back signals and the like. Once; from the thread that runs
  // settle(), too.
  virtual void give_back(Dispatch& dispatch) noexcept = 0;
  // Gives back what other queues needed until now for captures that are over. True: nothing is left. Likewise.
  [[nodiscard]] virtual bool at_rest() noexcept = 0;
};

// The collector at the other end of a channel.
class Listener {
 public:
  virtual ~Listener() = default;
  [[nodiscard]] virtual bool active() const noexcept = 0;      // wants more captures
  [[nodiscard]] virtual bool connected() const noexcept = 0;
  // False: a wait for it was in vain, and nothing has come from it since. No capture is begun then.
  [[nodiscard]] virtual bool listens() const noexcept = 0;
  // False: it is gone. Bounded, as Channel::send. The dispatch has the costs.
  virtual bool ready(const Dispatch& dispatch) noexcept = 0;   // gets no more of it
  virtual bool done(const Dispatch& dispatch) noexcept = 0;
  virtual void failed(const Dispatch& dispatch, const core::Error& why) noexcept = 0;
};

}  // namespace kerncap::capture
