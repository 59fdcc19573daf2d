// Runs dispatches on worker threads.
//
// Several dispatches are in flight at once; a work-group belongs to one worker from start to end. A worker gives its
// resident work-groups time slices in turn, and takes up another one whenever those that it has did not finish within
// theirs, from each dispatch in turn: so waves that spin on memory, waiting for another work-group, another queue or
// the host, never keep the others from running, and all work-groups of a cooperative launch become resident.
#pragma once

#include <functional>
#include <memory>

#include "softgpu/exec/dispatch.hpp"
#include "softgpu/exec/schedule.hpp"

namespace kerncap::softgpu {

class EngineState;

class Engine {
 public:
  // workers 0: one for each core that this process may use. Threads start with the first dispatch.
  explicit Engine(unsigned workers = 0, const Schedule& schedule = {});
  ~Engine();  // aborts what still runs
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Called once, on a worker, with no View open and no lock held: may submit, map and unmap.
  using Callback = std::function<void(const DispatchOutcome&)>;

  // Returns at once. A dispatch that cannot start (impossible descriptor) calls back here, in the caller's thread,
  // with a fault and `refusal`.
  void submit(Dispatch dispatch, Callback done);

  // Of dispatches from now on.
  void choose_schedule(const Schedule& schedule);

  // Stops the owner's dispatches at the next slice end and returns when none of them runs any more; each has called
  // back, `aborted`. Not to be called from a callback.
  void abort(const void* owner);

  // Null when this host can run the interpreter, else a sentence that says what it lacks (AVX2, FMA, F16C).
  [[nodiscard]] static const char* host_problem() noexcept;

 private:
  std::unique_ptr<EngineState> m_state;
};

}  // namespace kerncap::softgpu
