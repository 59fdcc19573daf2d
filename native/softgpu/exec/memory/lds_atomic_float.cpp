// Floating-point DS atomics. They follow MODE's denormal bits but always round to nearest even.
#include "softgpu/exec/float_mode.hpp"
#include "softgpu/exec/memory/lds_atomic.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

// MXCSR with the wave's denormal handling and no rounding mode, for as long as it lives.
class DenormalScope {
 public:
  DenormalScope(const WaveContext& wave, FloatWidth width) noexcept : m_changed(!wave.float_mode_is_default) {
    if (!m_changed) return;
    m_saved = _mm_getcsr();
    set(FloatModeScope::mxcsr_for(wave.mode & k_mode_default_float, width));
  }
  ~DenormalScope() {
    if (m_changed) set(m_saved);
  }
  DenormalScope(const DenormalScope&) = delete;
  DenormalScope& operator=(const DenormalScope&) = delete;

 private:
  static void set(std::uint32_t value) noexcept { asm volatile("ldmxcsr %0" : : "m"(value) : "memory"); }

  bool m_changed;
  std::uint32_t m_saved = 0;
};

template <class Op, FloatWidth k_width>
Flow float_atomic(WaveContext& wave, const Instruction& in) noexcept {
  const DenormalScope scope(wave, k_width);
  return lds_atomic<Op>(wave, in);
}

#define KERNCAP_LDS_FLOAT_ATOMIC(name, type, width, ...)                          \
  {"ds_" name "_" type, lds_only<float_atomic<__VA_ARGS__, FloatWidth::width>>},  \
  {"ds_" name "_rtn_" type, lds_only<float_atomic<__VA_ARGS__, FloatWidth::width>>}

constexpr HandlerEntry k_entries[] = {
    KERNCAP_LDS_FLOAT_ATOMIC("add", "f32", f32, atomic::FloatAdd<float>),
    KERNCAP_LDS_FLOAT_ATOMIC("min", "f32", f32, atomic::FloatMin<float>),
    KERNCAP_LDS_FLOAT_ATOMIC("max", "f32", f32, atomic::FloatMax<float>),
    KERNCAP_LDS_FLOAT_ATOMIC("cmpst", "f32", f32, atomic::FloatCompareStore<float>),
    KERNCAP_LDS_FLOAT_ATOMIC("add", "f64", f16_f64, atomic::FloatAdd<double>),
    KERNCAP_LDS_FLOAT_ATOMIC("min", "f64", f16_f64, atomic::FloatMin<double>),
    KERNCAP_LDS_FLOAT_ATOMIC("max", "f64", f16_f64, atomic::FloatMax<double>),
    KERNCAP_LDS_FLOAT_ATOMIC("cmpst", "f64", f16_f64, atomic::FloatCompareStore<double>),
    KERNCAP_LDS_FLOAT_ATOMIC("pk_add", "f16", f16_f64, atomic::PackedAdd<atomic::Half16>),
    KERNCAP_LDS_FLOAT_ATOMIC("pk_add", "bf16", f32, atomic::PackedAdd<atomic::Brain16>),
};

}  // namespace

void register_lds_float_atomics(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu
