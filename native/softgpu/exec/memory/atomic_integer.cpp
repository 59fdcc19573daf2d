// Integer atomics on GPU memory.
#include "softgpu/exec/memory/atomic_access.hpp"
#include "softgpu/exec/memory/families.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

using U32 = std::uint32_t;
using U64 = std::uint64_t;

#define KERNCAP_INTEGER_ATOMICS(prefix, form, suffix, T)                        \
  {prefix "_atomic_swap" suffix, always<form<atomic::Swap<T>>>},                \
  {prefix "_atomic_cmpswap" suffix, always<form<atomic::CompareSwap<T>>>},      \
  {prefix "_atomic_add" suffix, always<form<atomic::Add<T>>>},                  \
  {prefix "_atomic_sub" suffix, always<form<atomic::Sub<T>>>},                  \
  {prefix "_atomic_smin" suffix, always<form<atomic::SMin<T>>>},                \
  {prefix "_atomic_umin" suffix, always<form<atomic::UMin<T>>>},                \
  {prefix "_atomic_smax" suffix, always<form<atomic::SMax<T>>>},                \
  {prefix "_atomic_umax" suffix, always<form<atomic::UMax<T>>>},                \
  {prefix "_atomic_and" suffix, always<form<atomic::And<T>>>},                  \
  {prefix "_atomic_or" suffix, always<form<atomic::Or<T>>>},                    \
  {prefix "_atomic_xor" suffix, always<form<atomic::Xor<T>>>},                  \
  {prefix "_atomic_inc" suffix, always<form<atomic::Inc<T>>>},                  \
  {prefix "_atomic_dec" suffix, always<form<atomic::Dec<T>>>}

constexpr HandlerEntry k_entries[] = {
    KERNCAP_INTEGER_ATOMICS("global", global_atomic, "", U32), KERNCAP_INTEGER_ATOMICS("global", global_atomic, "_x2", U64),
    KERNCAP_INTEGER_ATOMICS("flat", flat_atomic, "", U32),     KERNCAP_INTEGER_ATOMICS("flat", flat_atomic, "_x2", U64),
    KERNCAP_INTEGER_ATOMICS("buffer", buffer_atomic, "", U32), KERNCAP_INTEGER_ATOMICS("buffer", buffer_atomic, "_x2", U64),
};

}  // namespace

void register_integer_atomics(HandlerTable& table) { table.add(k_entries); }

}  // namespace kerncap::softgpu
