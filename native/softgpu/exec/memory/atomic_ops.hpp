// What the atomic opcodes compute: the new value from the old one and the operands. `fetch` is for the operations that the
// host has an instruction for; the others are a compare-exchange loop around `next`.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE::atomic {

template <class T>
using Signed = std::make_signed_t<T>;

template <class T>
struct OneOperand {
  using Word = T;
  static constexpr unsigned k_operands = 1;
};
template <class T>
struct TwoOperands {
  using Word = T;
  static constexpr unsigned k_operands = 2;
};

template <class T> struct Swap : OneOperand<T> {
  static T next(T, T a, T) noexcept { return a; }
  static T fetch(std::atomic_ref<T> at, T a, T) noexcept { return at.exchange(a, std::memory_order_relaxed); }
};
template <class T> struct Add : OneOperand<T> {
  static T next(T old, T a, T) noexcept { return old + a; }
  static T fetch(std::atomic_ref<T> at, T a, T) noexcept { return at.fetch_add(a, std::memory_order_relaxed); }
};
template <class T> struct Sub : OneOperand<T> {
  static T next(T old, T a, T) noexcept { return old - a; }
  static T fetch(std::atomic_ref<T> at, T a, T) noexcept { return at.fetch_sub(a, std::memory_order_relaxed); }
};
template <class T> struct ReverseSub : OneOperand<T> { static T next(T old, T a, T) noexcept { return a - old; } };
template <class T> struct And : OneOperand<T> { static T next(T old, T a, T) noexcept { return old & a; } };
template <class T> struct Or : OneOperand<T> { static T next(T old, T a, T) noexcept { return old | a; } };
template <class T> struct Xor : OneOperand<T> { static T next(T old, T a, T) noexcept { return old ^ a; } };
template <class T> struct UMin : OneOperand<T> { static T next(T old, T a, T) noexcept { return std::min(old, a); } };
template <class T> struct UMax : OneOperand<T> { static T next(T old, T a, T) noexcept { return std::max(old, a); } };
template <class T> struct SMin : OneOperand<T> {
  static T next(T old, T a, T) noexcept { return static_cast<Signed<T>>(a) < static_cast<Signed<T>>(old) ? a : old; }
};
template <class T> struct SMax : OneOperand<T> {
  static T next(T old, T a, T) noexcept { return static_cast<Signed<T>>(a) > static_cast<Signed<T>>(old) ? a : old; }
};
// The operand is the largest value of a counter that wraps.
template <class T> struct Inc : OneOperand<T> {
  static T next(T old, T a, T) noexcept { return old >= a ? 0 : old + 1; }
};
template <class T> struct Dec : OneOperand<T> {
  static T next(T old, T a, T) noexcept { return old == 0 || old > a ? a : old - 1; }
};
// Memory atomics hold the new value in the low half of their data, DS opcodes the value to compare.
template <class T> struct CompareSwap : TwoOperands<T> {
  // Whether it writes at all; all other operations always do.
  static bool writes(T old, T, T b) noexcept { return old == b; }
  static T next(T old, T a, T b) noexcept { return old == b ? a : old; }
  static T fetch(std::atomic_ref<T> at, T a, T b) noexcept {
    at.compare_exchange_strong(b, a, std::memory_order_relaxed);
    return b;
  }
};
template <class T> struct CompareStore : TwoOperands<T> {
  static T next(T old, T a, T b) noexcept { return old == a ? b : old; }
};
template <class T> struct MaskOr : TwoOperands<T> {
  static T next(T old, T a, T b) noexcept { return (old & ~a) | b; }
};
template <class T> struct Wrap : TwoOperands<T> {
  static T next(T old, T a, T b) noexcept { return old >= a ? old - a : old + b; }
};

// ---- floating point: Word is the bit pattern, F the number

enum class Denormals : std::uint8_t { keep, flush };

template <class F>
using BitsOf = std::conditional_t<sizeof(F) == 4, std::uint32_t, std::uint64_t>;

[[nodiscard]] inline float flush(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits & 0x7F800000U) == 0 ? std::bit_cast<float>(bits & 0x80000000U) : value;
}

template <class F, Denormals k_denormals = Denormals::keep>
struct FloatAdd : OneOperand<BitsOf<F>> {
  using Word = BitsOf<F>;
  static constexpr bool k_float_add = true;
  static Word next(Word old, Word a, Word) noexcept {
    const F x = std::bit_cast<F>(old), y = std::bit_cast<F>(a);
    if constexpr (k_denormals == Denormals::flush) return std::bit_cast<Word>(flush(flush(x) + flush(y)));
    return std::bit_cast<Word>(x + y);
  }
};
// A comparison with NaN is false, so the old value stays.
template <class F> struct FloatMin : OneOperand<BitsOf<F>> {
  using Word = BitsOf<F>;
  static Word next(Word old, Word a, Word) noexcept { return std::bit_cast<F>(a) < std::bit_cast<F>(old) ? a : old; }
};
template <class F> struct FloatMax : OneOperand<BitsOf<F>> {
  using Word = BitsOf<F>;
  static Word next(Word old, Word a, Word) noexcept { return std::bit_cast<F>(a) > std::bit_cast<F>(old) ? a : old; }
};
template <class F> struct FloatCompareStore : TwoOperands<BitsOf<F>> {
  using Word = BitsOf<F>;
  static Word next(Word old, Word a, Word b) noexcept { return std::bit_cast<F>(old) == std::bit_cast<F>(a) ? b : old; }
};

// f32 holds the exact sum of two f16 or bf16 closely enough that rounding twice equals rounding once.
struct Half16 {
  static float widen(std::uint32_t bits) noexcept { return _cvtsh_ss(static_cast<unsigned short>(bits)); }
  static std::uint32_t round(float value) noexcept { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }
};
struct Brain16 {
  static float widen(std::uint32_t bits) noexcept { return std::bit_cast<float>(bits << 16); }
  static std::uint32_t round(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return (bits >> 16) | 0x40U;
    return (bits + 0x7FFFU + ((bits >> 16) & 1)) >> 16;
  }
};
template <class F> struct PackedAdd : OneOperand<std::uint32_t> {
  static std::uint32_t next(std::uint32_t old, std::uint32_t a, std::uint32_t) noexcept {
    const std::uint32_t low = F::round(F::widen(old & 0xFFFF) + F::widen(a & 0xFFFF));
    const std::uint32_t high = F::round(F::widen(old >> 16) + F::widen(a >> 16));
    return (low & 0xFFFF) | (high << 16);
  }
};

}  // namespace kerncap::softgpu::atomic
