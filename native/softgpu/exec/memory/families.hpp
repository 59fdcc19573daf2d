// The families of this folder.
#pragma once

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

void register_global(HandlerTable& table);          // global, flat and scratch loads and stores
void register_buffer(HandlerTable& table);          // untyped buffer loads and stores
void register_typed_buffer(HandlerTable& table);    // buffer_*_format_*, tbuffer_*
void register_integer_atomics(HandlerTable& table); // global, flat, buffer
void register_float_atomics(HandlerTable& table);
void register_cache_control(HandlerTable& table);
void register_lds(HandlerTable& table);             // ds_read*, ds_write*
void register_lds_integer_atomics(HandlerTable& table);
void register_lds_float_atomics(HandlerTable& table);
void register_lds_cross_lane(HandlerTable& table);  // swizzle, permute, append

}  // namespace kerncap::softgpu
