// v_min, v_max, v_min3, v_max3, v_med3 of f16, f32 and f64.
//
// Their function depends on the wave's mode: whether signaling NaN win (IEEE), whether denormals count as zero. f32
// rows, which are common, are searched for NaN first: without any, a much shorter loop does.
#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

enum class Order { min, max, min3, max3, med3 };

[[nodiscard]] constexpr bool has_three(Order order) noexcept { return order != Order::min && order != Order::max; }

template <Order k_order, NanRule k_rule, class T>
[[nodiscard]] inline T pick(T a, T b, T c) noexcept {
  switch (k_order) {
    case Order::min: return minimum<k_rule>(a, b);
    case Order::max: return maximum<k_rule>(a, b);
    case Order::min3: return minimum<k_rule>(minimum<k_rule>(a, b), c);
    case Order::max3: return maximum<k_rule>(maximum<k_rule>(a, b), c);
    case Order::med3: return median<k_rule>(a, b, c);
  }
}

template <bool k_flush, class T>
[[nodiscard]] inline T taken(T value) noexcept {
  return k_flush ? flushed(value) : value;
}

// Halves are floats here, and flushed where they are read and written.
template <class T, Order k_order, NanRule k_rule, bool k_flush>
constexpr auto function_of() {
  if constexpr (k_is_half<T>) {
    if constexpr (has_three(k_order)) {
      return [](T a, T b, T c) -> T { return {pick<k_order, k_rule>(a.value, b.value, c.value)}; };
    } else {
      return [](T a, T b) -> T { return {pick<k_order, k_rule>(a.value, b.value, a.value)}; };
    }
  } else if constexpr (has_three(k_order)) {
    return [](T a, T b, T c) -> T { return pick<k_order, k_rule>(taken<k_flush>(a), taken<k_flush>(b), taken<k_flush>(c)); };
  } else {
    return [](T a, T b) -> T {
      const T first = taken<k_flush>(a);
      return pick<k_order, k_rule>(first, taken<k_flush>(b), first);
    };
  }
}

[[nodiscard]] bool has_nan(const Row& row) noexcept {
  std::uint32_t most = 0;  // of the magnitudes
  for (unsigned i = 0; i < k_lanes; ++i) {
    const std::uint32_t magnitude = row.lane[i] & 0x7FFFFFFFU;
    most = magnitude > most ? magnitude : most;
  }
  return most > 0x7F800000U;
}

template <class T, Order k_order, bool k_plain, LaneOptions k_options>
Flow ordered_handler(WaveContext& wave, const Instruction& instruction) noexcept {
  const bool ieee = (wave.mode & k_mode_ieee) != 0;
  constexpr unsigned k_keep_shift = std::is_same_v<T, float> ? 4 : 6;
  if (!k_is_half<T> && ((wave.mode >> k_keep_shift) & 3) != 3) [[unlikely]] {
    return ieee ? lanewise_handler<function_of<T, k_order, NanRule::ieee, true>(), k_plain, k_options>(wave, instruction)
                : lanewise_handler<function_of<T, k_order, NanRule::quiet, true>(), k_plain, k_options>(wave, instruction);
  }
  if constexpr (std::is_same_v<T, float> && k_plain) {
    bool any = has_nan(*wave.source_row(instruction, 0)) || has_nan(*wave.source_row(instruction, 1));
    if constexpr (has_three(k_order)) any = any || has_nan(*wave.source_row(instruction, 2));
    if (!any) return lanewise_handler<function_of<T, k_order, NanRule::none, false>(), k_plain, k_options>(wave, instruction);
  }
  return ieee ? lanewise_handler<function_of<T, k_order, NanRule::ieee, false>(), k_plain, k_options>(wave, instruction)
              : lanewise_handler<function_of<T, k_order, NanRule::quiet, false>(), k_plain, k_options>(wave, instruction);
}

// Nothing is computed, so MXCSR does not matter.
constexpr LaneOptions k_clear{.ignores_float_mode = true};
constexpr LaneOptions k_keep{.high = HighHalf::keep, .ignores_float_mode = true};

template <class T, Order k_order, LaneOptions k_options = k_clear>
Handler ordered(Target target, Instruction& instruction) {
  if (!form_is_supported(target, instruction)) return nullptr;
  return is_plain(instruction) ? ordered_handler<T, k_order, true, k_options> : ordered_handler<T, k_order, false, k_options>;
}

}  // namespace

void register_min_max(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_min_f32", ordered<float, Order::min>},
      {"v_max_f32", ordered<float, Order::max>},
      {"v_min_f64", ordered<double, Order::min>},
      {"v_max_f64", ordered<double, Order::max>},
      {"v_min_f16", ordered<OrderedHalf, Order::min>},
      {"v_max_f16", ordered<OrderedHalf, Order::max>},
      {"v_min3_f32", ordered<float, Order::min3>},
      {"v_max3_f32", ordered<float, Order::max3>},
      {"v_med3_f32", ordered<float, Order::med3>},
      {"v_min3_f16", ordered<OrderedHalf, Order::min3, k_keep>},
      {"v_max3_f16", ordered<OrderedHalf, Order::max3, k_keep>},
      {"v_med3_f16", ordered<OrderedHalf, Order::med3, k_keep>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
