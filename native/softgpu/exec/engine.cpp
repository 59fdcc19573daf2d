#include "softgpu/exec/engine.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "softgpu/exec/engine_state.hpp"
#include "softgpu/exec/monotonic_clock.hpp"

namespace kerncap::softgpu {
namespace {

[[nodiscard]] unsigned usable_cores() noexcept {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&cores)));
}

}  // namespace

Engine::Engine(unsigned workers, const Schedule& schedule)
    : m_state(std::make_unique<EngineState>(workers != 0 ? workers : usable_cores(), schedule)) {}

Engine::~Engine() = default;

void Engine::submit(Dispatch dispatch, Callback done) {
  const Target target = dispatch.target;
  const std::uint64_t descriptor_va = dispatch.descriptor_va;
  core::Result<LaunchPlan> plan = LaunchPlan::make(std::move(dispatch));
  if (plan) {
    m_state->submit(std::move(plan).value(), std::move(done));
    return;
  }
  DispatchOutcome outcome;
  outcome.fault.kind = FaultKind::bad_descriptor;
  outcome.fault.target = target;
  outcome.fault.address = descriptor_va;
  outcome.refusal = plan.error().message;
  outcome.begin_ns = outcome.end_ns = monotonic_ns();
  done(outcome);
}

void Engine::choose_schedule(const Schedule& schedule) { m_state->choose(schedule); }

void Engine::abort(const void* owner) {
  m_state->abort_where([owner](const RunningDispatch& running) { return running.plan().dispatch.owner == owner; });
}

}  // namespace kerncap::softgpu
