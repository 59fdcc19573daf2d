// One atomic operation in every active lane, in lane order. On GPU memory with real host atomics, as other workers and the
// host work on the same words; in the LDS plainly, as a work-group lives on one worker.
#pragma once

#include <bit>

#include "softgpu/exec/memory/access.hpp"
#include "softgpu/exec/memory/atomic_ops.hpp"
#include "softgpu/exec/memory/buffer_address.hpp"
#include "softgpu/exec/memory/vector_address.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

template <class Word>
[[nodiscard]] inline Word get_word(const Row* rows, unsigned lane) noexcept {
  if constexpr (sizeof(Word) == 4) return rows[0].lane[lane];
  else return rows[0].lane[lane] | (Word{rows[1].lane[lane]} << 32);
}
template <class Word>
inline void set_word(Row* rows, unsigned lane, Word value) noexcept {
  rows[0].lane[lane] = static_cast<std::uint32_t>(value);
  if constexpr (sizeof(Word) == 8) rows[1].lane[lane] = static_cast<std::uint32_t>(value >> 32);
}

// `old` is null for an atomic that does not return; `second` is only read by operations with two operands.
struct AtomicOperands {
  const Row* first;
  const Row* second;
  Row* old;
};

template <class Op>
[[nodiscard]] inline typename Op::Word apply_atomic(std::byte* host, typename Op::Word a, typename Op::Word b) noexcept {
  using Word = typename Op::Word;
  const std::atomic_ref<Word> at(*reinterpret_cast<Word*>(host));
  if constexpr (requires { Op::fetch(at, a, b); }) {
    return Op::fetch(at, a, b);
  } else {
    Word old = at.load(std::memory_order_relaxed);
    while (!at.compare_exchange_weak(old, Op::next(old, a, b), std::memory_order_relaxed)) {}
    return old;
  }
}

template <class Op>
inline constexpr bool k_may_not_write = requires(typename Op::Word word) { Op::writes(word, word, word); };

// Before the operation; what may not write at all is noted as a write once it has.
template <class Op>
inline void note_atomic(WaveContext& wave, std::uint64_t va) noexcept {
  wave.worker->memory.note_read(va, sizeof(typename Op::Word));
  if constexpr (!k_may_not_write<Op>) wave.worker->memory.note_write(va, sizeof(typename Op::Word));
}

// All lanes at one word, as counters and reductions have it: the whole wave's turn is worked out in a register and put in
// place by one exchange, which is the order in which the lanes would have come anyway.
template <class Op>
[[gnu::noinline]] Flow atomic_one_word(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes,
                                       const AtomicOperands& operands) noexcept {
  using Word = typename Op::Word;
  const unsigned first = first_lane(lanes.mask);
  const std::uint64_t va = lanes.address(first);
  if (va % sizeof(Word) != 0) [[unlikely]] {
    return wave.stop(in, FaultKind::misaligned_address, va, first, AccessKind::atomic, sizeof(Word));
  }
  std::byte* host = wave.worker->memory.host(va, sizeof(Word), Rights::read | Rights::write);
  if (host == nullptr) [[unlikely]] return stop_at(wave, in, va, first, AccessKind::atomic, sizeof(Word));
  if (wave.worker->memory.is_recorded()) [[unlikely]] note_atomic<Op>(wave, va);
  // The old values may replace the operands, and the exchange may have to be tried again.
  alignas(64) Word before[k_lanes];
  const std::atomic_ref<Word> at(*reinterpret_cast<Word*>(host));
  Word old = at.load(std::memory_order_relaxed);
  Word next;
  [[maybe_unused]] bool has_written;
  do {
    next = old;
    has_written = false;
    for (std::uint64_t rest = lanes.mask; rest != 0; rest &= rest - 1) {
      const unsigned lane = first_lane(rest);
      before[lane] = next;
      Word b{};
      if constexpr (Op::k_operands == 2) b = get_word<Word>(operands.second, lane);
      const Word a = get_word<Word>(operands.first, lane);
      if constexpr (k_may_not_write<Op>) has_written |= Op::writes(next, a, b);
      next = Op::next(next, a, b);
    }
  } while (!at.compare_exchange_weak(old, next, std::memory_order_relaxed));
  if constexpr (k_may_not_write<Op>) {
    if (has_written && wave.worker->memory.is_recorded()) [[unlikely]] wave.worker->memory.note_write(va, sizeof(Word));
  }
  if (operands.old != nullptr) {
    for_each_lane(lanes.mask, [&](unsigned lane) { set_word(operands.old, lane, before[lane]); });
  }
  return Flow::next;
}

// Fewer lanes than this come one by one: the lock prefix costs less than looking for a pattern.
inline constexpr int k_one_word_lanes = 4;

template <class Op>
[[gnu::noinline]] Flow atomic_memory(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes,
                                     const AtomicOperands& operands) noexcept {
  using Word = typename Op::Word;
  if (std::popcount(lanes.mask) >= k_one_word_lanes &&
      lanes_equal(*lanes.offset, lanes.offset->lane[first_lane(lanes.mask)], lanes.mask) == lanes.mask) {
    return atomic_one_word<Op>(wave, in, lanes, operands);
  }
  Translation& memory = wave.worker->memory;
  for (std::uint64_t rest = lanes.mask; rest != 0; rest &= rest - 1) {
    const unsigned lane = first_lane(rest);
    const std::uint64_t va = lanes.address(lane);
    if (va % sizeof(Word) != 0) [[unlikely]] {
      return wave.stop(in, FaultKind::misaligned_address, va, lane, AccessKind::atomic, sizeof(Word));
    }
    std::byte* host = memory.host(va, sizeof(Word), Rights::read | Rights::write);
    if (host == nullptr) [[unlikely]] return stop_at(wave, in, va, lane, AccessKind::atomic, sizeof(Word));
    if (memory.is_recorded()) [[unlikely]] note_atomic<Op>(wave, va);
    const Word a = get_word<Word>(operands.first, lane);
    Word b{};
    if constexpr (Op::k_operands == 2) b = get_word<Word>(operands.second, lane);
    const Word old = apply_atomic<Op>(host, a, b);
    if constexpr (k_may_not_write<Op>) {
      if (memory.is_recorded() && Op::writes(old, a, b)) [[unlikely]] memory.note_write(va, sizeof(Word));
    }
    if (operands.old != nullptr) set_word(operands.old, lane, old);
  }
  return Flow::next;
}

template <class Op>
[[gnu::noinline]] Flow atomic_lds(WaveContext& wave, const Instruction& in, const LaneOffsets& lanes,
                                  const AtomicOperands& operands) noexcept {
  using Word = typename Op::Word;
  for (std::uint64_t rest = lanes.mask; rest != 0; rest &= rest - 1) {
    const unsigned lane = first_lane(rest);
    const std::uint32_t offset = lanes.low(lane);
    if (offset % sizeof(Word) != 0) [[unlikely]] {
      return wave.stop(in, FaultKind::misaligned_address, offset, lane, AccessKind::atomic, sizeof(Word));
    }
    if (std::uint64_t{offset} + sizeof(Word) > wave.lds_size_bytes) [[unlikely]] {
      if (!goes_on_beyond_lds(wave, in, offset, lane, AccessKind::atomic, sizeof(Word))) return Flow::fault;
      if (operands.old != nullptr) set_word(operands.old, lane, Word{});
      continue;
    }
    std::byte* at = wave.lds + offset;
    const Word a = get_word<Word>(operands.first, lane);
    Word b{};
    if constexpr (Op::k_operands == 2) b = get_word<Word>(operands.second, lane);
    const Word old = load_as<Word>(at);
    store_as(at, Op::next(old, a, b));
    if (operands.old != nullptr) set_word(operands.old, lane, old);
  }
  return Flow::next;
}

// The operands of a memory atomic: two-operand ones have both in one run of registers.
template <class Op>
[[nodiscard]] inline AtomicOperands memory_operands(WaveContext& wave, const Instruction& in) noexcept {
  const Row* data = wave.source_row(in, 1);
  return {data, data + sizeof(typename Op::Word) / 4, in.memory.returns ? wave.destination_row(in.dst) : nullptr};
}

template <class Op>
Flow global_atomic(WaveContext& wave, const Instruction& in) noexcept {
  const AtomicOperands operands = memory_operands<Op>(wave, in);
  return for_each_global_group(
      wave, in, [&](const LaneOffsets& lanes) { return atomic_memory<Op>(wave, in, lanes, operands); });
}

template <class Op>
Flow flat_atomic(WaveContext& wave, const Instruction& in) noexcept {
  const AtomicOperands operands = memory_operands<Op>(wave, in);
  return for_each_flat_group(
      wave, in, [&](const LaneOffsets& lanes) { return atomic_memory<Op>(wave, in, lanes, operands); },
      [&](const LaneOffsets& lanes) { return atomic_lds<Op>(wave, in, lanes, operands); },
      [&](const ScratchLanes& scratch) {
        const unsigned lane = first_lane(scratch.lanes.mask);
        return wave.stop(in, FaultKind::unsupported_operand, wave.private_base + scratch.lanes.low(lane), lane,
                         AccessKind::atomic, sizeof(typename Op::Word), "no target has atomics on scratch memory");
      });
}

template <class Op>
Flow buffer_atomic(WaveContext& wave, const Instruction& in) noexcept {
  const AtomicOperands operands = memory_operands<Op>(wave, in);
  return for_each_buffer_group(wave, in, sizeof(typename Op::Word), operands.old, [&](const LaneOffsets& lanes) {
    return atomic_memory<Op>(wave, in, lanes, operands);
  });
}

}  // namespace kerncap::softgpu
