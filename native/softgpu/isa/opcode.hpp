// What the tables know about one opcode of one target.
#pragma once

#include <cstdint>
#include <string_view>

#include "softgpu/isa/target.hpp"

namespace kerncap::softgpu {

// One machine encoding. flat, global and scratch share bits and differ in the segment field; mfma is the matrix half
// of VOP3P, whose modifier bits mean something else; vop3sd is the half of VOP3 that has a scalar destination.
enum class Format : std::uint8_t {
  sop1, sop2, sopc, sopk, sopp, smem, vop1, vop2, vopc, vop3, vop3sd, vop3p, mfma, ds, flat, global, scratch, mubuf, mtbuf,
  mimg,  // named only: nothing executes images
};
inline constexpr unsigned k_format_count = 20;

// How an operand's bits are read: it decides what an inline constant or a literal becomes.
enum class NumberType : std::uint8_t {
  none, b16, b32, b64, b96, b128, b256, b512, f16, bf16, f32, f64, i16, u16, i32, u32, i64, u64,
  pk_f16, pk_bf16, pk_i16, pk_u16, pk_f32, pk_b32,
};

// Where an operand comes from when it is not simply the encoding's field.
enum class OperandRole : std::uint8_t { field, vcc, tied, literal, accumulator, scalar };

struct OperandInfo {
  NumberType type = NumberType::none;
  std::uint8_t dwords = 0;  // registers that the operand fills; 0: the opcode has no such operand
  OperandRole role = OperandRole::field;
};

// For instruction counts, and for nothing else.
enum class InstructionClass : std::uint8_t {
  salu, smem, valu, matrix, lds, vmem_load, vmem_store, vmem_atomic, branch, sync, other,
};
inline constexpr unsigned k_class_count = 11;

struct Opcode {
  std::string_view mnemonic;  // lower case, without _e32/_e64/_sdwa/_dpp: "v_add_f32", "global_load_dwordx2"
  Format format;
  std::uint16_t number;       // within its format
  InstructionClass instruction_class;
  OperandInfo dst, sdst, src[3];  // memory formats: see Decoded
};

}  // namespace kerncap::softgpu
