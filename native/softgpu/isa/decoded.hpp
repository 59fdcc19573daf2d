// One machine instruction, taken apart. Everything that the encoding hides is explicit here: implied VCC operands,
// the destination that a multiply-accumulate also reads, constants already expanded to their operand's type.
#pragma once

#include <cstdint>

#include "softgpu/isa/opcode.hpp"

namespace kerncap::softgpu {

enum class OperandKind : std::uint8_t {
  none,
  vgpr,      // index: v0..v255
  agpr,      // index: a0..a255
  sgpr,      // index: the operand encoding, 0..127: s0.., flat_scratch 102, vcc 106, ttmp 108.., m0 124, exec 126
  constant,  // value
  special,   // index: the operand encoding: 235..238 apertures, 251 vccz, 252 execz, 253 scc
};

struct Operand {
  OperandKind kind = OperandKind::none;
  std::uint8_t dwords = 0;
  NumberType type = NumberType::none;
  bool is_literal = false;
  std::uint16_t index = 0;
  std::uint16_t encoding = 0;  // the raw 9-bit source code, for rules that depend on it (240..248 are float constants)
  // Constants, expanded to `type`. 16-bit types and packed floats hold it in the low half; an integer constant of a
  // packed type is the 32-bit integer. A constant that fills more than two registers is the same in each (pair).
  std::uint64_t value = 0;
};

enum class Variant : std::uint8_t { plain, dpp, sdwa, dpp8 };

struct Dpp {
  std::uint16_t control = 0;  // the 9-bit DPP_CTRL
  std::uint8_t row_mask = 15, bank_mask = 15;
  bool bound_control = false;   // BOUND_CTRL=1: an out-of-range lane reads 0
  bool fetch_inactive = false;  // gfx10+
  std::uint32_t dpp8_select = 0;
};

// Selectors: 0..3 byte, 4..5 word, 6 dword. Unused destination bits: 0 pad with zero, 1 sign-extend, 2 preserve.
struct Sdwa {
  std::uint8_t dst_select = 6, dst_unused = 0;
  std::uint8_t src_select[2] = {6, 6};
  bool sign_extend[2] = {false, false};
};

// Memory operands by format:
//   smem          dst sdata (src[2] for stores)   src[0] sbase   src[1] soffset              offset
//   ds            dst vdst   src[0] addr   src[1] data0   src[2] data1                       offset, offset1 (raw)
//   flat family   dst vdst   src[0] addr   src[1] data    src[2] saddr (none: no scalar)     offset (signed)
//                 src[0] is 64 bits wide, 32 beside an saddr and for scratch, and none where scratch uses no vaddr
//   mubuf, mtbuf  dst vdata  src[0] vaddr  src[1] vdata   src[2] srsrc   src[3] soffset      offset
// mubuf, mtbuf: src[0] has offset_enable + index_enable registers (index first). Loads have no src[1], stores no dst,
// atomics have dst only when they return the old value (`returns`).
// For 2-address DS opcodes `offset` is the 8-bit offset0 and `offset1` the other; for the rest of DS it is 16 bits.
struct MemoryBits {
  bool returns = false;  // glc (gfx90a) or sc0 (gfx942) of an atomic; set for *_rtn DS opcodes too
  bool glc = false, slc = false, scc = false;  // gfx942: sc0, nt, sc1
  bool offset_enable = false, index_enable = false;  // mubuf, mtbuf: offen, idxen
  bool to_lds = false, gds = false;
  std::uint8_t data_format = 0, number_format = 0;  // mtbuf
};

struct Decoded {
  const Opcode* opcode = nullptr;
  std::uint8_t size_bytes = 0;
  Variant variant = Variant::plain;
  // Source modifiers: bit i belongs to src[i]. For packed instructions neg is NEG_LO.
  std::uint8_t neg = 0, abs = 0, neg_hi = 0;
  std::uint8_t op_sel = 0;     // bit i: src[i] takes its high half; bit 3: the destination's high half
  std::uint8_t op_sel_hi = 0;  // packed: bit i: the high lane of src[i] takes the high half
  std::uint8_t omod = 0;       // 1: *2, 2: *4, 3: /2
  bool clamp = false;
  std::uint8_t cbsz = 0, abid = 0, blgp = 0;  // mfma
  std::uint8_t offset1 = 0;
  // sopp, sopk: simm16, sign-extended; memory: the immediate offset
  std::int32_t offset = 0;
  // VOPC and readlane: dst is an sgpr (VCC for the short forms). sdst: VOP3SD and the carry-out of VOP2.
  // VOP2 carry-in and v_cndmask: src[2] is the mask. v_mac/v_fmac/v_dot*c: src[2] is the destination. v_madmk/v_fmamk:
  // src[1] is K; v_madak/v_fmaak: src[2] is K. So each runs as its three-operand form.
  Operand dst, sdst, src[4];
  Dpp dpp;
  Sdwa sdwa;
  MemoryBits memory;
  // One more than the highest vector register touched, for the interpreter's check against the wave's allocation.
  std::uint16_t vgpr_end = 0, agpr_end = 0;
};

}  // namespace kerncap::softgpu
