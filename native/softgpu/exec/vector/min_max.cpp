// v_min, v_max, v_min3, v_max3, v_med3 of f16, f32 and f64.
#include "softgpu/exec/vector/min_max.hpp"

#include "softgpu/exec/vector/families.hpp"

namespace kerncap::softgpu {

namespace {

enum class Order { min, max, min3, max3, med3 };

template <Order k_order, bool k_ieee, class T>
[[nodiscard]] inline T pick(T a, T b, T c) noexcept {
  switch (k_order) {
    case Order::min: return minimum<k_ieee>(a, b);
    case Order::max: return maximum<k_ieee>(a, b);
    case Order::min3: return minimum<k_ieee>(minimum<k_ieee>(a, b), c);
    case Order::max3: return maximum<k_ieee>(maximum<k_ieee>(a, b), c);
    case Order::med3: return median<k_ieee>(a, b, c);
  }
}

template <class T, bool k_flush>
[[nodiscard]] inline T taken(T value) noexcept {
  return k_flush ? flushed(value) : value;
}

// Two sources.
template <class T, Order k_order, bool k_ieee, bool k_flush>
constexpr auto k_pick2 = [](T a, T b) -> T {
  const T first = taken<T, k_flush>(a);
  return pick<k_order, k_ieee>(first, taken<T, k_flush>(b), first);
};
template <class T, Order k_order, bool k_ieee, bool k_flush>
constexpr auto k_pick3 = [](T a, T b, T c) -> T {
  return pick<k_order, k_ieee>(taken<T, k_flush>(a), taken<T, k_flush>(b), taken<T, k_flush>(c));
};
// Halves are floats here, and flushed where they are read and written.
template <Order k_order, bool k_ieee>
constexpr auto k_half2 = [](OrderedHalf a, OrderedHalf b) -> OrderedHalf { return {pick<k_order, k_ieee>(a.value, b.value, a.value)}; };
template <Order k_order, bool k_ieee>
constexpr auto k_half3 = [](OrderedHalf a, OrderedHalf b, OrderedHalf c) -> OrderedHalf {
  return {pick<k_order, k_ieee>(a.value, b.value, c.value)};
};

template <class T, Order k_order>
constexpr HandlerFactory k_two = ordered<k_pick2<T, k_order, true, false>, k_pick2<T, k_order, false, false>,
                                         k_pick2<T, k_order, true, true>, k_pick2<T, k_order, false, true>>;
template <Order k_order>
constexpr HandlerFactory k_three = ordered<k_pick3<float, k_order, true, false>, k_pick3<float, k_order, false, false>,
                                           k_pick3<float, k_order, true, true>, k_pick3<float, k_order, false, true>>;
template <Order k_order>
constexpr HandlerFactory k_two_halves =
    ordered<k_half2<k_order, true>, k_half2<k_order, false>, k_half2<k_order, true>, k_half2<k_order, false>>;
constexpr LaneOptions k_keep{HighHalf::keep};
template <Order k_order>
constexpr HandlerFactory k_three_halves =
    ordered<k_half3<k_order, true>, k_half3<k_order, false>, k_half3<k_order, true>, k_half3<k_order, false>, k_keep>;

}  // namespace

void register_min_max(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_min_f32", k_two<float, Order::min>},     {"v_max_f32", k_two<float, Order::max>},
      {"v_min_f64", k_two<double, Order::min>},    {"v_max_f64", k_two<double, Order::max>},
      {"v_min_f16", k_two_halves<Order::min>},     {"v_max_f16", k_two_halves<Order::max>},
      {"v_min3_f32", k_three<Order::min3>},        {"v_max3_f32", k_three<Order::max3>},
      {"v_med3_f32", k_three<Order::med3>},        {"v_min3_f16", k_three_halves<Order::min3>},
      {"v_max3_f16", k_three_halves<Order::max3>}, {"v_med3_f16", k_three_halves<Order::med3>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
