// The families of this folder; families.cpp registers them all.
#pragma once

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/wave_lanes.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

void register_bits(HandlerTable& table);
void register_carry(HandlerTable& table);
void register_compare_float(HandlerTable& table);
void register_compare_integer(HandlerTable& table);
void register_convert(HandlerTable& table);
void register_division(HandlerTable& table);
void register_dot(HandlerTable& table);
void register_float16(HandlerTable& table);
void register_float32(HandlerTable& table);
void register_float64(HandlerTable& table);
void register_fp8(HandlerTable& table);
void register_integer16(HandlerTable& table);
void register_integer32(HandlerTable& table);
void register_lane_access(HandlerTable& table);
void register_matrix(HandlerTable& table);
void register_media(HandlerTable& table);
void register_min_max(HandlerTable& table);
void register_mix(HandlerTable& table);
void register_packed16(HandlerTable& table);
void register_packed32(HandlerTable& table);
void register_sparse_matrix(HandlerTable& table);
void register_transcendental(HandlerTable& table);

}  // namespace kerncap::softgpu
