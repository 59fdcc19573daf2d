// f64 arithmetic. Reciprocal, reciprocal square root and square root are exact to half an ulp; hardware's are good to
// 2^29 ulp or so, and the compiler refines them.
#include <cmath>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu {

namespace {

constexpr auto k_fma = [](double a, double b, double c) { return std::fma(a, b, c); };

constexpr auto k_fract = [](double a) {
  const double fraction = a - std::floor(a);
  return fraction >= 1.0 ? 0x1.fffffffffffffp-1 : fraction;
};

// Adds to the exponent where that stays among the normal numbers, and rounds once where it does not.
constexpr auto k_ldexp = [](double a, std::int32_t exponent) {
  const std::uint64_t bits = bits_of(a);
  const auto biased = static_cast<std::int64_t>((bits >> 52) & 0x7FF);
  const std::int64_t moved = biased + exponent;
  if (biased != 0 && biased != 0x7FF && moved > 0 && moved < 0x7FF) {
    return std::bit_cast<double>(bits + (static_cast<std::uint64_t>(static_cast<std::int64_t>(exponent)) << 52));
  }
  return std::ldexp(a, exponent);
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
      {"v_rndne_f64", lanewise<[](double a) { return __builtin_roundeven(a); }>},
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
