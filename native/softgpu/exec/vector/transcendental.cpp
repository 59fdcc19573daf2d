// The transcendental opcodes of f32 and f16: lane functions of transcendental.hpp, with the flushing of each type.
#include "softgpu/exec/vector/transcendental.hpp"

#include "softgpu/exec/vector/families.hpp"
#include "softgpu/exec/vector/lanewise.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

constexpr LaneOptions k_own_mode{.ignores_float_mode = true};

constexpr auto k_exp = [](float a) { return flushed(approximate_exp2(a)); };
constexpr auto k_log = [](float a) { return approximate_log2(flushed(a)); };
constexpr auto k_rcp = [](float a) { return flushed(1.0F / flushed(a)); };
constexpr auto k_rsq = [](float a) { return approximate_rsq(flushed(a)); };
constexpr auto k_sqrt = [](float a) { return std::sqrt(flushed(a)); };
constexpr auto k_sin = [](float a) { return approximate_sin(a); };
constexpr auto k_cos = [](float a) { return approximate_cos(a); };

}  // namespace

void register_transcendental(HandlerTable& table) {
  static constexpr HandlerEntry k_entries[] = {
      {"v_exp_f32", lanewise<k_exp, k_own_mode>},
      {"v_exp_legacy_f32", lanewise<k_exp, k_own_mode>},
      {"v_log_f32", lanewise<k_log, k_own_mode>},
      {"v_log_legacy_f32", lanewise<k_log, k_own_mode>},
      {"v_rcp_f32", lanewise<k_rcp, k_own_mode>},
      {"v_rcp_iflag_f32", lanewise<k_rcp, k_own_mode>},
      {"v_rsq_f32", lanewise<k_rsq, k_own_mode>},
      {"v_sqrt_f32", lanewise<k_sqrt, k_own_mode>},
      {"v_sin_f32", lanewise<k_sin, k_own_mode>},
      {"v_cos_f32", lanewise<k_cos, k_own_mode>},
      // Denormal halves are normal floats: nothing is flushed but what the wave's mode asks for.
      {"v_exp_f16", lanewise<[](Half a) -> Half { return {approximate_exp2(a.value)}; }, k_own_mode>},
      {"v_log_f16", lanewise<[](Half a) -> Half { return {approximate_log2(a.value)}; }, k_own_mode>},
      {"v_rcp_f16", lanewise<[](Half a) -> Half { return {1.0F / a.value}; }, k_own_mode>},
      {"v_rsq_f16", lanewise<[](Half a) -> Half { return {approximate_rsq(a.value)}; }, k_own_mode>},
      {"v_sqrt_f16", lanewise<[](Half a) -> Half { return {std::sqrt(a.value)}; }, k_own_mode>},
      {"v_sin_f16", lanewise<[](Half a) -> Half { return {approximate_sin(a.value)}; }, k_own_mode>},
      {"v_cos_f16", lanewise<[](Half a) -> Half { return {approximate_cos(a.value)}; }, k_own_mode>},
  };
  table.add(k_entries);
}

}  // namespace kerncap::softgpu
