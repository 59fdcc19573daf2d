#include "fake_engine.hpp"

#include <utility>

namespace kerncap::softgpu {

class EngineState {};

Engine::Engine(unsigned, const Schedule&) : m_state(std::make_unique<EngineState>()) {}
Engine::~Engine() = default;

void Engine::submit(Dispatch dispatch, Callback done) {
  test::submitted().push_back({std::move(dispatch), std::move(done)});
}

void Engine::abort(const void* owner) {
  std::vector<test::Submitted> kept, ended;
  for (test::Submitted& each : test::submitted()) {
    (each.dispatch.owner == owner ? ended : kept).push_back(std::move(each));
  }
  test::submitted() = std::move(kept);
  DispatchOutcome outcome;
  outcome.aborted = true;
  for (const test::Submitted& each : ended) each.done(outcome);
}

namespace test {

std::vector<Submitted>& submitted() {
  static std::vector<Submitted> list;
  return list;
}

void end(std::size_t index, const DispatchOutcome& outcome) {
  const Submitted ended = std::move(submitted()[index]);
  submitted().erase(submitted().begin() + static_cast<std::ptrdiff_t>(index));
  ended.done(outcome);
}

}  // namespace test
}  // namespace kerncap::softgpu
