// Floating-point atomics on GPU memory. They round to nearest even whatever MODE says; f32 sums flush denormals on gfx90a,
// whose memory side cannot do otherwise, and keep them on gfx942.
#include "softgpu/exec/memory/atomic_access.hpp"
#include "softgpu/exec/memory/families.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using AddF32 = atomic::FloatAdd<float>;
using FlushingAddF32 = atomic::FloatAdd<float, atomic::Denormals::flush>;

template <Handler k_keep, Handler k_flush>
Handler by_target(Target target, Instruction&) {
  return traits(target).f32_atomics_flush_denormals ? k_flush : k_keep;
}

#define KERNCAP_FLOAT_ATOMICS(prefix, form)                                                     \
  {prefix "_atomic_add_f32", by_target<form<AddF32>, form<FlushingAddF32>>},                    \
  {prefix "_atomic_pk_add_f16", always<form<atomic::PackedAdd<atomic::Half16>>>},               \
  {prefix "_atomic_pk_add_bf16", always<form<atomic::PackedAdd<atomic::Brain16>>>},             \
  {prefix "_atomic_add_f64", always<form<atomic::FloatAdd<double>>>},                           \
  {prefix "_atomic_min_f64", always<form<atomic::FloatMin<double>>>},                           \
  {prefix "_atomic_max_f64", always<form<atomic::FloatMax<double>>>}

constexpr HandlerEntry k_entries[] = {
    KERNCAP_FLOAT_ATOMICS("global", global_atomic),
    KERNCAP_FLOAT_ATOMICS("flat", flat_atomic),
    KERNCAP_FLOAT_ATOMICS("buffer", buffer_atomic),
};

}  // namespace

void register_float_atomics(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu
