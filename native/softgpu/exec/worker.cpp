#include "softgpu/exec/worker.hpp"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "softgpu/exec/interpreter.hpp"
#include "softgpu/exec/monotonic_clock.hpp"
#include "softgpu/exec/thread_slice.hpp"

namespace kerncap::softgpu {
namespace {

// A slice holds the page table open, so it must stay well under a millisecond; switching work-groups costs some
// microseconds of cache misses, so it should not be much shorter.
constexpr std::uint64_t k_slice_ns = 400'000;
constexpr std::uint32_t k_clock_interval = 2048;  // instructions, before the clock is looked at again
// Residents grow by a quarter in each rotation that ends none, up to this many, then one by one.
constexpr std::size_t k_fast_growth_limit = 256;
constexpr std::size_t k_spare_limit = 4;
constexpr unsigned k_polite_rotations = 16;  // of nothing but sleepers, before the thread sleeps, too
constexpr long k_nap_ns = 50'000;
constexpr std::uint32_t k_default_mxcsr = 0x1F80;

void nap() noexcept {
  const timespec time{0, k_nap_ns};
  nanosleep(&time, nullptr);
}

}  // namespace

void Worker::run() {
  _mm_setcsr(k_default_mxcsr);  // threads inherit the mode of the one that started them
  ask_for_slices(k_worker_slice_ns);
  while (!m_engine.ending()) {
    if (m_version != m_engine.version()) m_dispatches = m_engine.dispatches(m_version);
    if (m_residents.empty()) {
      m_turn = 0;
      if (!admit()) {
        if (waits_for_room()) {
          nap();
        } else {
          m_dispatches.clear();
          m_engine.wait_for_change(m_version);
        }
        continue;
      }
    }
    const SliceEnd end = slice(m_residents[m_turn]);
    if (end == SliceEnd::slept || end == SliceEnd::expired) {
      ++m_turn;
      admit_foreign();
      if (end == SliceEnd::slept) admit();
      if (end == SliceEnd::expired) m_rotation_slept = false;
    } else {
      end_resident(m_turn, end);
      m_rotation_progressed = true;
    }
    if (m_turn >= m_residents.size()) end_rotation();
  }
}

void Worker::end_rotation() {
  const std::size_t before = m_residents.size();
  if (!m_rotation_progressed && !m_rotation_slept) {
    const std::size_t wanted = before < k_fast_growth_limit ? before / 4 + 1 : 1;
    for (std::size_t i = 0; i < wanted && admit(); ++i) {}
  }
  // All wait for something outside: let the host, or another worker, have the core.
  const bool idle = before != 0 && m_rotation_slept && !m_rotation_progressed && m_turn == before;
  m_idle_rotations = idle ? m_idle_rotations + 1 : 0;
  if (idle && m_idle_rotations < k_polite_rotations) {
    sched_yield();
  } else if (idle) {
    nap();
  }
  m_turn = 0;
  m_rotation_progressed = false;
  m_rotation_slept = true;
}

bool Worker::waits_for_room() const noexcept {
  return std::any_of(m_dispatches.begin(), m_dispatches.end(), [](const auto& d) { return d->has_untaken(); });
}

bool Worker::has_resident_of(const RunningDispatch* dispatch) const noexcept {
  return std::any_of(m_residents.begin(), m_residents.end(), [&](const Resident& r) { return r.dispatch.get() == dispatch; });
}

void Worker::admit_foreign() {
  if (m_version != m_engine.version()) m_dispatches = m_engine.dispatches(m_version);
  for (const std::shared_ptr<RunningDispatch>& dispatch : m_dispatches) {
    if (dispatch->has_untaken() && !has_resident_of(dispatch.get())) admit_from(dispatch);
  }
}

bool Worker::admit() {
  for (std::size_t i = 0; i < m_dispatches.size(); ++i) {
    m_next_dispatch = (m_next_dispatch + 1) % m_dispatches.size();
    if (admit_from(m_dispatches[m_next_dispatch])) return true;
  }
  return false;
}

bool Worker::admit_from(const std::shared_ptr<RunningDispatch>& dispatch) {
  if (!dispatch->has_untaken()) return false;
  std::unique_ptr<WorkGroup> group;
  if (m_spare.empty()) {
    group = std::make_unique<WorkGroup>();
  } else {
    group = std::move(m_spare.back());
    m_spare.pop_back();
  }
  std::uint64_t group_index = 0;
  const bool taken = group->reserve_scratch(dispatch->plan()) && dispatch->take(group_index);
  if (!taken) {
    group->release_scratch();
    m_spare.push_back(std::move(group));
    return false;
  }
  const Schedule& schedule = dispatch->schedule();
  group_index = schedule.group_at(dispatch->order(), group_index, dispatch->plan().group_count);
  group->start(dispatch->plan(), group_index, *m_lent);
  Resident& resident = m_residents.emplace_back(dispatch, std::move(group), &code_for(*dispatch));
  resident.turns.start(schedule, dispatch->order(), group_index, resident.group->waves.size());
  return true;
}

CodeCache& Worker::code_for(const RunningDispatch& dispatch) {
  const Dispatch& what = dispatch.plan().dispatch;
  Code& code = m_code[{what.space, what.target}];
  if (code.cache == nullptr) code.cache = std::make_unique<CodeCache>(what.target);
  if (dispatch.serial() > code.newest_serial) {
    code.newest_serial = dispatch.serial();
    code.cache->begin_epoch();
  }
  return *code.cache;
}

Worker::SliceEnd Worker::slice(Resident& resident) {
  if (resident.dispatch->stopped()) return SliceEnd::dropped;
  const AddressSpace& space = *resident.dispatch->plan().dispatch.space;
  const AddressSpace::View view(space);
  m_lent->memory.begin_slice(space, view);
  m_lent->memory.record(resident.dispatch->plan().dispatch.accesses.get());
  m_lent->code = resident.code;
  SliceEnd end = SliceEnd::fault;
  if (const HostFault lost = HostGuard::guarded([&] { end = run_waves(resident); })) {
    resident.fault = fault_of(lost, resident);
    _mm_setcsr(k_default_mxcsr);  // a handler may have been left in the middle of a float mode of its own
    end = SliceEnd::fault;
  }
  m_lent->memory.end_slice();
  return end;
}

// A page that the GPU may reach and that the program has changed. Such memory has one address for both.
Fault Worker::fault_of(const HostFault& lost, const Resident& resident) noexcept {
  const WaveContext& wave = resident.group->waves[resident.turns.wave()];
  const Instruction* instruction = resident.code->executed();
  const bool is_gone = lost.reason == HostFault::Reason::unmapped || lost.reason == HostFault::Reason::file_end;
  Fault fault;
  fault.kind = is_gone ? FaultKind::unmapped_address : FaultKind::forbidden_access;
  fault.target = wave.target;
  fault.lane = k_max_lanes;  // any of them
  fault.address = lost.address;
  fault.wave = wave.index;
  std::copy_n(resident.group->id, 3, fault.group_id);
  fault.detail = text(lost.reason);
  if (instruction == nullptr) {
    fault.kind = FaultKind::bad_code_address;
    fault.access = AccessKind::execute;
    fault.pc = lost.address;
    return fault;
  }
  const bool is_atomic = instruction->opcode->instruction_class == InstructionClass::vmem_atomic;
  fault.access = is_atomic ? AccessKind::atomic : lost.is_write ? AccessKind::write : AccessKind::read;
  fault.pc = instruction->pc;
  fault.mnemonic = instruction->opcode->mnemonic;
  return fault;
}

Worker::SliceEnd Worker::run_waves(Resident& resident) {
  WorkGroup& group = *resident.group;
  InstructionCounts* counts = resident.dispatch->plan().dispatch.count_instructions ? &resident.counts : nullptr;
  WaveTurns& turns = resident.turns;
  const std::uint64_t deadline_ns = monotonic_ns() + k_slice_ns;
  std::uint32_t unclocked = 0;  // instructions since the clock was looked at
  bool slept = true;            // since the last pass over all waves began
  bool ran = false;
  for (;;) {
    if (turns.pass_ended()) {
      if (ran && slept) {
        turns.begin_pass(false);
        return SliceEnd::slept;
      }
      const bool all_wait = !group.has(WaveStatus::ready);  // have come to the barrier, or to the end
      if (all_wait) {
        if (!group.has(WaveStatus::at_barrier)) return SliceEnd::done;
        std::replace(group.status.begin(), group.status.end(), WaveStatus::at_barrier, WaveStatus::ready);
      }
      turns.begin_pass(all_wait);
      ran = false;
      slept = true;
    }
    WaveStatus& status = group.status[turns.wave()];
    if (status != WaveStatus::ready) {
      turns.end_turn(0);
      continue;
    }
    WaveContext& wave = group.waves[turns.wave()];
    const WaveRun run = run_wave(wave, *resident.code, turns.budget(), turns.ends_at_wait(), counts);
    ran = true;
    resident.counts.total += run.executed;
    unclocked += run.executed;
    if (run.stop == WaveStop::fault) {
      resident.fault = wave.fault;
      return SliceEnd::fault;
    }
    if (run.stop == WaveStop::barrier) status = WaveStatus::at_barrier;
    if (run.stop == WaveStop::end) status = WaveStatus::ended;
    if (run.stop != WaveStop::yield) slept = false;
    if (run.stop == WaveStop::budget) {
      turns.spend(run.executed);
    } else {
      turns.end_turn(run.executed);
    }
    if (unclocked < k_clock_interval) continue;
    unclocked = 0;
    if (monotonic_ns() >= deadline_ns) return SliceEnd::expired;
  }
}

void Worker::end_resident(std::size_t index, SliceEnd end) {
  Resident resident = std::move(m_residents[index]);
  m_residents.erase(m_residents.begin() + static_cast<std::ptrdiff_t>(index));
  resident.group->release_scratch();
  if (m_spare.size() < k_spare_limit) m_spare.push_back(std::move(resident.group));
  bool last = end == SliceEnd::fault && resident.dispatch->stop(resident.fault, false);
  last = resident.dispatch->end_group(resident.counts) || last;
  if (last) m_engine.finish(resident.dispatch);
}

}  // namespace kerncap::softgpu
