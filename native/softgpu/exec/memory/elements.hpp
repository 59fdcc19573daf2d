// The elements of the load and store opcodes, which every address form (global, flat, scratch, buffer) shares, and the
// tables made from them: families differ only in how they find their addresses.
#pragma once

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/memory/transfer.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

using U8 = Narrow<std::uint8_t>;
using I8 = Narrow<std::int8_t>;
using U16 = Narrow<std::uint16_t>;
using I16 = Narrow<std::int16_t>;
using U8Low = Narrow<std::uint8_t, Half::low>;
using U8High = Narrow<std::uint8_t, Half::high>;
using I8Low = Narrow<std::int8_t, Half::low>;
using I8High = Narrow<std::int8_t, Half::high>;
using U16Low = Narrow<std::uint16_t, Half::low>;
using U16High = Narrow<std::uint16_t, Half::high>;

// Family<Element>::load and ::store are handler factories.
#define KERNCAP_LOADS_AND_STORES(prefix, Family)                   \
  {prefix "_load_ubyte", Family<U8>::load},                        \
  {prefix "_load_sbyte", Family<I8>::load},                        \
  {prefix "_load_ushort", Family<U16>::load},                      \
  {prefix "_load_sshort", Family<I16>::load},                      \
  {prefix "_load_dword", Family<Dwords<1>>::load},                 \
  {prefix "_load_dwordx2", Family<Dwords<2>>::load},               \
  {prefix "_load_dwordx3", Family<Dwords<3>>::load},               \
  {prefix "_load_dwordx4", Family<Dwords<4>>::load},               \
  {prefix "_load_ubyte_d16", Family<U8Low>::load},                 \
  {prefix "_load_ubyte_d16_hi", Family<U8High>::load},             \
  {prefix "_load_sbyte_d16", Family<I8Low>::load},                 \
  {prefix "_load_sbyte_d16_hi", Family<I8High>::load},             \
  {prefix "_load_short_d16", Family<U16Low>::load},                \
  {prefix "_load_short_d16_hi", Family<U16High>::load},            \
  {prefix "_store_byte", Family<U8>::store},                       \
  {prefix "_store_byte_d16_hi", Family<U8High>::store},            \
  {prefix "_store_short", Family<U16>::store},                     \
  {prefix "_store_short_d16_hi", Family<U16High>::store},          \
  {prefix "_store_dword", Family<Dwords<1>>::store},               \
  {prefix "_store_dwordx2", Family<Dwords<2>>::store},             \
  {prefix "_store_dwordx3", Family<Dwords<3>>::store},             \
  {prefix "_store_dwordx4", Family<Dwords<4>>::store}

// Loads that go to the LDS instead of a register: opcodes of their own on gfx942, a bit of the plain ones on gfx90a.
#define KERNCAP_LDS_LOADS(prefix, Family)                          \
  {prefix "_load_lds_ubyte", Family<U8>::load_to_lds},             \
  {prefix "_load_lds_sbyte", Family<I8>::load_to_lds},             \
  {prefix "_load_lds_ushort", Family<U16>::load_to_lds},           \
  {prefix "_load_lds_sshort", Family<I16>::load_to_lds},           \
  {prefix "_load_lds_dword", Family<Dwords<1>>::load_to_lds}

}  // namespace kerncap::softgpu
