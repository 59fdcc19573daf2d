// f64 arithmetic. Reciprocal, reciprocal square root and square root are exact to half an ulp; hardware's are good to
// 2^29 ulp or so, and the compiler refines them.
#include <cmath>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

constexpr auto k_fma = [](double a, double b, double c) { return std::fma(a, b, c); };

constexpr auto k_fract = [](double a) {
  const double fraction = a - std::floor(a);
  return fraction >= 1.0 ? 0x1.fffffffffffffp-1 : fraction;
};

// A product with powers of two. The first two are exact: together they go as far as the result stays a normal number
// (a denormal may go up as far as it likes). The last one alone rounds, and more than its range makes no difference.
constexpr auto k_ldexp = [](double a, std::int32_t exponent) {
  const auto bounded = [](std::int32_t value, std::int32_t least, std::int32_t most) {
    const std::int32_t raised = value < least ? least : value;
    return raised > most ? most : raised;
  };
  const auto power = [](std::int32_t n) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023) << 52);
  };
  const auto biased = static_cast<std::int32_t>((bits_of(a) >> 52) & 0x7FF);
  const std::int32_t total = biased == 0x7FF ? 0 : bounded(exponent, -2200, 2200);  // infinities and NaN stay
  const std::int32_t exact = bounded(total, biased == 0 ? 0 : 2 - biased, biased == 0x7FF ? 0 : 2046 - biased);
  const std::int32_t half = exact / 2;
  return a * power(half) * power(exact - half) * power(bounded(total - exact, -1022, 1023));
};

}  // namespace

void register_float64(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_add_f64", lanewise<[](double a, double b) { return a + b; }>},
      {"v_mul_f64", lanewise<[](double a, double b) { return a * b; }>},
      {"v_fma_f64", lanewise<k_fma>},
      {"v_fmac_f64", lanewise<k_fma>},
      {"v_trunc_f64", lanewise<[](double a) { return std::trunc(a); }>},
      {"v_ceil_f64", lanewise<[](double a) { return std::ceil(a); }>},
      {"v_floor_f64", lanewise<[](double a) { return std::floor(a); }>},
      {"v_rndne_f64", lanewise<[](double a) { return nearest_integer(a); }, LaneOptions{.ignores_float_mode = true}>},
      {"v_fract_f64", lanewise<k_fract>},
      {"v_ldexp_f64", lanewise<k_ldexp>},
      {"v_rcp_f64", lanewise<[](double a) { return 1.0 / a; }>},
      {"v_rsq_f64", lanewise<[](double a) { return 1.0 / std::sqrt(a); }>},
      {"v_sqrt_f64", lanewise<[](double a) { return std::sqrt(a); }>},
      {"v_frexp_mant_f64", lanewise<[](double a) { return frexp_mantissa(a); }>},
      {"v_frexp_exp_i32_f64",
       lanewise<[](double a) { return static_cast<std::int32_t>(frexp_exponent(a)); }, LaneOptions{.clamp_is_harmless = true}>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
