// What one lane computes with, and how those of a wave lie in memory between the registers and a lane loop.
//
// An element type is the type that an operation is written in. Its storage is what the loop reads: registers as they
// are for 32 bits, so that nothing is copied; packed arrays otherwise. Half is computed in float: sums, products and
// quotients of halves rounded to float and then to half are those rounded once (24 >= 2 * 11 + 2 bits).
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "softgpu/exec/row.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

struct Half {
  float value;
};
// A half that is compared, not computed with: a signaling NaN stays one.
struct OrderedHalf {
  float value;
};

template <class T>
struct alignas(64) Lanes {
  T lane[k_lanes];
};
template <>
struct Lanes<std::uint32_t> : Row {};

template <class T>
struct ElementTraits;  // undefined for what is no element type

template <class T, class S, unsigned k_dwords_, bool k_float_>
struct ElementTraitsBase {
  using Storage = S;
  static constexpr unsigned k_dwords = k_dwords_;
  static constexpr bool k_float = k_float_;
  static constexpr bool k_half_register = false;
};
template <class T, class S, bool k_float_>
struct HalfRegisterTraits : ElementTraitsBase<T, S, 1, k_float_> {
  static constexpr bool k_half_register = true;
};
template <> struct ElementTraits<std::uint32_t> : ElementTraitsBase<std::uint32_t, std::uint32_t, 1, false> {};
template <> struct ElementTraits<std::int32_t> : ElementTraitsBase<std::int32_t, std::uint32_t, 1, false> {};
template <> struct ElementTraits<float> : ElementTraitsBase<float, std::uint32_t, 1, true> {};
template <> struct ElementTraits<std::uint64_t> : ElementTraitsBase<std::uint64_t, std::uint64_t, 2, false> {};
template <> struct ElementTraits<std::int64_t> : ElementTraitsBase<std::int64_t, std::uint64_t, 2, false> {};
template <> struct ElementTraits<double> : ElementTraitsBase<double, std::uint64_t, 2, true> {};
template <> struct ElementTraits<std::uint16_t> : HalfRegisterTraits<std::uint16_t, std::uint16_t, false> {};
template <> struct ElementTraits<std::int16_t> : HalfRegisterTraits<std::int16_t, std::uint16_t, false> {};
template <> struct ElementTraits<bool> : ElementTraitsBase<bool, bool, 0, false> {};  // a condition; never stored
template <> struct ElementTraits<Half> : HalfRegisterTraits<Half, float, true> {};
template <> struct ElementTraits<OrderedHalf> : HalfRegisterTraits<OrderedHalf, float, true> {};

template <class T>
inline constexpr bool k_is_half = std::is_same_v<T, Half> || std::is_same_v<T, OrderedHalf>;

template <class T>
using Storage = typename ElementTraits<T>::Storage;

template <class T>
[[nodiscard]] inline T from_storage(Storage<T> stored) noexcept {
  if constexpr (k_is_half<T>) {
    return T{stored};
  } else {
    return std::bit_cast<T>(stored);
  }
}
template <class T>
[[nodiscard]] inline Storage<T> to_storage(T value) noexcept {
  if constexpr (k_is_half<T>) {
    return value.value;
  } else {
    return std::bit_cast<Storage<T>>(value);
  }
}

}  // namespace kerncap::softgpu
