// One worker thread: takes work-groups, gives each a time slice in turn.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "softgpu/exec/code_cache.hpp"
#include "softgpu/exec/engine_state.hpp"
#include "softgpu/exec/schedule.hpp"
#include "softgpu/exec/work_group.hpp"
#include "softgpu/memory/host_guard.hpp"

namespace kerncap::softgpu {

class Worker {
 public:
  explicit Worker(EngineState& engine) : m_engine(engine), m_lent(std::make_unique<WorkerState>()) {}
  void run();

 private:
  struct Code {
    std::unique_ptr<CodeCache> cache;
    std::uint64_t newest_serial = 0;  // the newest dispatch whose start has been seen
  };
  struct Resident {
    Resident(std::shared_ptr<RunningDispatch> dispatch_, std::unique_ptr<WorkGroup> group_, CodeCache* code_) noexcept
        : dispatch(std::move(dispatch_)), group(std::move(group_)), code(code_) {}
    std::shared_ptr<RunningDispatch> dispatch;
    std::unique_ptr<WorkGroup> group;
    CodeCache* code;
    WaveTurns turns;
    InstructionCounts counts{};
    Fault fault{};
  };
  enum class SliceEnd : std::uint8_t { done, fault, dropped, slept, expired };

  // Takes up one more work-group, of a dispatch that has none here if there is one. False: there is none, or no
  // scratch memory for it.
  bool admit();
  bool admit_from(const std::shared_ptr<RunningDispatch>& dispatch);
  void admit_foreign();
  void end_rotation();
  [[nodiscard]] bool waits_for_room() const noexcept;
  [[nodiscard]] bool has_resident_of(const RunningDispatch* dispatch) const noexcept;
  [[nodiscard]] CodeCache& code_for(const RunningDispatch& dispatch);
  [[nodiscard]] SliceEnd slice(Resident& resident);
  [[nodiscard]] static Fault fault_of(const HostFault& lost, const Resident& resident) noexcept;
  [[nodiscard]] SliceEnd run_waves(Resident& resident);
  void end_resident(std::size_t index, SliceEnd end);

  EngineState& m_engine;
  std::unique_ptr<WorkerState> m_lent;
  std::map<std::pair<const AddressSpace*, Target>, Code> m_code;
  std::uint64_t m_version = 0;
  DispatchList m_dispatches;
  std::size_t m_next_dispatch = 0;
  std::vector<Resident> m_residents;
  std::size_t m_turn = 0;
  bool m_rotation_progressed = false;  // a work-group of this rotation ended
  bool m_rotation_slept = true;        // every slice of this rotation ended in s_sleep
  unsigned m_idle_rotations = 0;
  std::vector<std::unique_ptr<WorkGroup>> m_spare;
};

}  // namespace kerncap::softgpu
