// Ends, waits, barriers, messages, traps; and what has no effect here: priorities, performance counters. A wait for
// counters has nothing to wait for, as memory operations are done when their instruction is; it may end a turn.
#include "softgpu/exec/code_cache.hpp"
#include "softgpu/exec/scalar/ops.hpp"
#include "softgpu/exec/work_group.hpp"

namespace kerncap::softgpu::scalar {
namespace {

constexpr std::uint32_t k_message_bits = 0xF;
constexpr std::uint32_t k_message_interrupt = 1;
constexpr std::uint64_t k_trap_debug = 3;  // returns at once when no debugger is attached

Flow nothing(WaveContext&, const Instruction&) noexcept { return Flow::next; }
Flow wait(WaveContext&, const Instruction&) noexcept { return Flow::wait; }
Flow end(WaveContext&, const Instruction&) noexcept { return Flow::end; }
Flow sleep(WaveContext&, const Instruction&) noexcept { return Flow::yield; }

Flow barrier(WaveContext& wave, const Instruction&) noexcept {
  return wave.group->waves.size() > 1 ? Flow::barrier : Flow::next;
}

Flow send_message(WaveContext& wave, const Instruction& instruction) noexcept {
  if ((static_cast<std::uint32_t>(instruction.offset) & k_message_bits) != k_message_interrupt) {
    return wave.stop(instruction, FaultKind::unsupported_operand, 0, 0, AccessKind::none, 0, "a message other than an interrupt");
  }
  if (wave.group->interrupt != nullptr && *wave.group->interrupt) (*wave.group->interrupt)(wave.m0());
  return Flow::next;
}

Flow trap(WaveContext& wave, const Instruction& instruction) noexcept {
  const std::uint64_t id = static_cast<std::uint32_t>(instruction.offset) & 0xFF;
  return id == k_trap_debug ? Flow::next : wave.stop(instruction, FaultKind::trap, id);
}

Flow halt(WaveContext& wave, const Instruction& instruction) noexcept {
  if ((instruction.offset & 1) == 0) return Flow::next;
  return wave.stop(instruction, FaultKind::unsupported_operand, 0, 0, AccessKind::none, 0, "a wave that halts for a debugger");
}

// Code may have been written: whatever comes next is looked at again.
Flow invalidate_code(WaveContext& wave, const Instruction& instruction) noexcept {
  wave.worker->code->begin_epoch();
  wave.pc = instruction.next_pc();
  return Flow::jump;
}

constexpr HandlerEntry k_entries[] = {
    {"s_endpgm", always<end>},
    {"s_endpgm_saved", always<end>},
    {"s_barrier", always<barrier>},
    {"s_sleep", always<sleep>},
    {"s_sendmsg", always<send_message>},
    {"s_trap", always<trap>},
    {"s_sethalt", always<halt>},
    {"s_icache_inv", always<invalidate_code>},
    {"s_nop", always<nothing>},
    {"s_waitcnt", always<wait>},
    {"s_setprio", always<nothing>},
    {"s_wakeup", always<nothing>},
    {"s_incperflevel", always<nothing>},
    {"s_decperflevel", always<nothing>},
    {"s_ttracedata", always<nothing>},
};

}  // namespace

void register_control(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu::scalar
