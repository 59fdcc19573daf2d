// Which encoding an instruction word belongs to, and its opcode; the fields are read by the decode_* files.
#include "softgpu/isa/decoder.hpp"

#include "softgpu/isa/fields.hpp"
#include "softgpu/isa/opcode_index.hpp"

namespace kerncap::softgpu {
namespace {

struct Match {
  Format space;
  unsigned number;
  unsigned words;  // 32-bit words before a literal or a modifier word
};

// CDNA: the encoding is told by the highest bits. False: none begins like this.
[[nodiscard]] bool match_cdna(std::uint32_t word, Match& match) noexcept {
  if (!bit(word, 31)) {
    switch (bits(word, 30, 25)) {
      case 0x3F: match = {Format::vop1, bits(word, 16, 9), 1}; return true;
      case 0x3E: match = {Format::vopc, bits(word, 24, 17), 1}; return true;
      default: match = {Format::vop2, bits(word, 30, 25), 1}; return true;
    }
  }
  if (!bit(word, 30)) {  // scalar; the topmost numbers of each encoding make room for the next
    switch (bits(word, 31, 23)) {
      case 0x17D: match = {Format::sop1, bits(word, 15, 8), 1}; return true;
      case 0x17E: match = {Format::sopc, bits(word, 22, 16), 1}; return true;
      case 0x17F: match = {Format::sopp, bits(word, 22, 16), 1}; return true;
      default: break;
    }
    match = bits(word, 31, 28) == 0xB ? Match{Format::sopk, bits(word, 27, 23), 1} : Match{Format::sop2, bits(word, 29, 23), 1};
    return true;
  }
  switch (bits(word, 31, 26)) {
    case 0x30: match = {Format::smem, bits(word, 25, 18), 2}; return true;
    case 0x34:
      match = bits(word, 25, 23) == 7 ? Match{Format::vop3p, bits(word, 22, 16), 2} : Match{Format::vop3, bits(word, 25, 16), 2};
      return true;
    case 0x36: match = {Format::ds, bits(word, 24, 17), 2}; return true;
    case 0x37: {
      constexpr Format k_segments[] = {Format::flat, Format::scratch, Format::global};
      const unsigned segment = bits(word, 15, 14);
      if (segment == 3) return false;
      match = {k_segments[segment], bits(word, 24, 18), 2};
      return true;
    }
    case 0x38: match = {Format::mubuf, bits(word, 24, 18), 2}; return true;
    case 0x3C: match = {Format::mimg, bits(word, 24, 18), 2}; return true;
    case 0x3A: match = {Format::mtbuf, bits(word, 18, 15), 2}; return true;
    default: return false;
  }
}

}  // namespace

DecodeStatus decode(Target target, std::span<const std::uint32_t> words, Decoded& out) noexcept {
  if (words.empty()) return DecodeStatus::truncated;
  Match match{};
  if (traits(target).encoding != Encoding::gfx9 || !match_cdna(words[0], match)) return DecodeStatus::unknown_format;
  const Opcode* opcode = OpcodeIndex::of(target).find(match.space, match.number);
  if (opcode == nullptr) return DecodeStatus::unknown_opcode;
  out = Decoded{};
  out.opcode = opcode;
  Decoding d{.target = target, .words = words, .out = out};
  d.base_words = match.words;
  switch (opcode->format) {
    case Format::sop1:
    case Format::sop2:
    case Format::sopc:
    case Format::sopk:
    case Format::sopp:
    case Format::smem: decode_scalar(d, *opcode); break;
    case Format::ds:
    case Format::flat:
    case Format::global:
    case Format::scratch:
    case Format::mubuf:
    case Format::mtbuf: decode_memory(d, *opcode); break;
    case Format::mimg: break;
    default: decode_vector(d, *opcode); break;
  }
  if (words.size() < d.base_words) d.status = DecodeStatus::truncated;
  out.size_bytes = static_cast<std::uint8_t>(4 * (d.base_words + (d.literal_used ? 1 : 0)));
  return d.status;
}

std::string_view text(DecodeStatus status) noexcept {
  switch (status) {
    case DecodeStatus::ok: return "decoded";
    case DecodeStatus::truncated: return "the code ends inside an instruction";
    case DecodeStatus::unknown_format: return "no encoding begins like this";
    case DecodeStatus::unknown_opcode: return "not an opcode of this target";
    case DecodeStatus::bad_operand: return "an operand that cannot be";
    case DecodeStatus::odd_tuple: return "an operand of several registers that begins at an odd one";
  }
  return "unknown status";
}

}  // namespace kerncap::softgpu
