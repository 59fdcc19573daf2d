// f32 arithmetic: sums, products, fused and unfused multiply-adds, rounding to integers, cube maps.
#include <cmath>

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/float_bits.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

// v_mad_f32 and v_mac_f32 round the product, and know no denormals, whatever the mode.
constexpr auto k_mad = [](float a, float b, float c) {
  return flushed(flushed(flushed(a) * flushed(b)) + flushed(c));
};
constexpr auto k_fma = [](float a, float b, float c) { return std::fma(a, b, c); };

// Zero times anything is zero.
constexpr auto k_mul_legacy = [](float a, float b) { return a == 0 || b == 0 ? 0.0F : a * b; };
constexpr auto k_mad_legacy = [](float a, float b, float c) {
  const float product = a == 0 || b == 0 ? 0.0F : flushed(flushed(a) * flushed(b));
  return flushed(product + flushed(c));
};
constexpr auto k_fma_legacy = [](float a, float b, float c) { return a == 0 || b == 0 ? c : std::fma(a, b, c); };

// The largest float below 1: what tiny negative inputs give instead of 1.
constexpr auto k_fract = [](float a) {
  const float fraction = a - std::floor(a);
  return fraction >= 1.0F ? 0x1.fffffep-1F : fraction;
};

// Scaling in double is exact, and the conversion back rounds once. No exponent beyond 400 makes a difference.
constexpr auto k_ldexp = [](float a, std::int32_t exponent) {
  std::int32_t bounded = exponent > 400 ? 400 : exponent;
  bounded = bounded < -400 ? -400 : bounded;
  const auto scale = static_cast<std::uint64_t>(bounded + 1023) << 52;
  return static_cast<float>(static_cast<double>(a) * std::bit_cast<double>(scale));
};

// Cube map faces: the axis of the largest magnitude, z before y before x.
struct Cube {
  bool z_is_major, y_is_major;
  Cube(float x, float y, float z) noexcept
      : z_is_major(std::fabs(z) >= std::fabs(x) && std::fabs(z) >= std::fabs(y)),
        y_is_major(std::fabs(y) >= std::fabs(x)) {}
  [[nodiscard]] float choose(float for_z, float for_y, float for_x) const noexcept {
    return z_is_major ? for_z : (y_is_major ? for_y : for_x);
  }
};
constexpr auto k_cube_id = [](float x, float y, float z) {
  return Cube(x, y, z).choose(z < 0 ? 5.0F : 4.0F, y < 0 ? 3.0F : 2.0F, x < 0 ? 1.0F : 0.0F);
};
constexpr auto k_cube_s = [](float x, float y, float z) {
  return Cube(x, y, z).choose(z < 0 ? -x : x, x, x < 0 ? z : -z);
};
constexpr auto k_cube_t = [](float x, float y, float z) {
  return Cube(x, y, z).choose(-y, y < 0 ? -z : z, -y);
};
constexpr auto k_cube_major = [](float x, float y, float z) { return 2.0F * Cube(x, y, z).choose(z, y, x); };

}  // namespace

void register_float32(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_add_f32", lanewise<[](float a, float b) { return a + b; }>},
      {"v_sub_f32", lanewise<[](float a, float b) { return a - b; }>},
      {"v_subrev_f32", lanewise<[](float a, float b) { return b - a; }>},
      {"v_mul_f32", lanewise<[](float a, float b) { return a * b; }>},
      {"v_mul_legacy_f32", lanewise<k_mul_legacy>},
      {"v_mac_f32", lanewise<k_mad>},
      {"v_mad_f32", lanewise<k_mad>},
      {"v_madmk_f32", lanewise<k_mad>},
      {"v_madak_f32", lanewise<k_mad>},
      {"v_mad_legacy_f32", lanewise<k_mad_legacy>},
      {"v_mac_legacy_f32", lanewise<k_mad_legacy>},
      {"v_fma_f32", lanewise<k_fma>},
      {"v_fmac_f32", lanewise<k_fma>},
      {"v_fmamk_f32", lanewise<k_fma>},
      {"v_fmaak_f32", lanewise<k_fma>},
      {"v_fma_legacy_f32", lanewise<k_fma_legacy>},
      {"v_trunc_f32", lanewise<[](float a) { return std::trunc(a); }>},
      {"v_ceil_f32", lanewise<[](float a) { return std::ceil(a); }>},
      {"v_floor_f32", lanewise<[](float a) { return std::floor(a); }>},
      {"v_rndne_f32", lanewise<[](float a) { return nearest_integer(a); }, LaneOptions{.ignores_float_mode = true}>},
      {"v_fract_f32", lanewise<k_fract>},
      {"v_ldexp_f32", lanewise<k_ldexp>},
      {"v_frexp_mant_f32", lanewise<[](float a) { return frexp_mantissa(a); }>},
      {"v_frexp_exp_i32_f32",
       lanewise<[](float a) { return static_cast<std::int32_t>(frexp_exponent(a)); }, LaneOptions{.clamp_is_harmless = true}>},
      {"v_cubeid_f32", lanewise<k_cube_id>},
      {"v_cubesc_f32", lanewise<k_cube_s>},
      {"v_cubetc_f32", lanewise<k_cube_t>},
      {"v_cubema_f32", lanewise<k_cube_major>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
