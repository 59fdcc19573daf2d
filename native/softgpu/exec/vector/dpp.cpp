// Where each lane of a DPP source comes from.
#include "softgpu/exec/vector/dpp.hpp"

#include <array>

#include "softgpu/exec/vector/lane_transfer.hpp"

namespace kerncap::softgpu::inline KERNCAP_WAVE {

namespace {

constexpr std::uint8_t k_no_lane = 0xFF;
constexpr unsigned k_row = 16;  // lanes in a DPP row

// dpp_ctrl: quad_perm 0x000..0x0FF, row_shl 0x101.., row_shr 0x111.., row_ror 0x121.., wave_shl 0x130, wave_rol 0x134,
// wave_shr 0x138, wave_ror 0x13C, row_mirror 0x140, row_half_mirror 0x141, row_bcast15 0x142, row_bcast31 0x143,
// row_newbcast (gfx90a) or row_share (gfx10+) 0x150.., row_xmask (gfx10+) 0x160..
constexpr std::uint8_t source_lane(unsigned control, unsigned lane) {
  const unsigned row = lane / k_row * k_row, column = lane % k_row, amount = control & 15;
  if (control <= 0xFF) return static_cast<std::uint8_t>((lane & ~3U) + ((control >> (2 * (lane & 3))) & 3));
  switch (control & 0x1F0) {
    case 0x100: return column + amount < k_row ? static_cast<std::uint8_t>(lane + amount) : k_no_lane;
    case 0x110: return column >= amount ? static_cast<std::uint8_t>(lane - amount) : k_no_lane;
    case 0x120: return static_cast<std::uint8_t>(row + (column + k_row - amount) % k_row);
    case 0x130:
      switch (amount) {
        case 0x0: return lane + 1 < k_lanes ? static_cast<std::uint8_t>(lane + 1) : k_no_lane;
        case 0x4: return static_cast<std::uint8_t>((lane + 1) % k_lanes);
        case 0x8: return lane > 0 ? static_cast<std::uint8_t>(lane - 1) : k_no_lane;
        default: return static_cast<std::uint8_t>((lane + k_lanes - 1) % k_lanes);
      }
    case 0x140:
      switch (amount) {
        case 0x0: return static_cast<std::uint8_t>(row + k_row - 1 - column);
        case 0x1: return static_cast<std::uint8_t>(lane ^ 7);
        case 0x2: return row > 0 ? static_cast<std::uint8_t>(row - 1) : k_no_lane;
        default: return lane >= 32 ? std::uint8_t{31} : k_no_lane;
      }
    case 0x150: return static_cast<std::uint8_t>(row + amount);
    default: return static_cast<std::uint8_t>(row + (column ^ amount));
  }
}

// Where each lane comes from (itself where there is no such lane), and which lanes have a source.
struct LaneMap {
  Row from;
  std::uint64_t exists;
};

constexpr unsigned k_controls = 0x170;

const std::array<LaneMap, k_controls>& lane_maps() {
  static const auto k_maps = [] {
    std::array<LaneMap, k_controls> maps{};
    for (unsigned control = 0; control < k_controls; ++control) {
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        const std::uint8_t source = source_lane(control, lane);
        maps[control].from.lane[lane] = source == k_no_lane ? lane : source;
        maps[control].exists |= static_cast<std::uint64_t>(source != k_no_lane) << lane;
      }
    }
    return maps;
  }();
  return k_maps;
}

LaneMap dpp8_map(std::uint32_t select) noexcept {
  LaneMap map{{}, k_all_lanes};
  for (unsigned lane = 0; lane < k_lanes; ++lane) map.from.lane[lane] = (lane & ~7U) + ((select >> (3 * (lane & 7))) & 7);
  return map;
}

// Lanes whose source exists and may be read.
std::uint64_t valid_lanes(const WaveContext& wave, const Instruction& instruction, const LaneMap& map) noexcept {
  const std::uint64_t readable = instruction.dpp.fetch_inactive ? k_all_lanes : active_lanes(wave);
  std::uint64_t valid = map.exists;
  if (readable != k_all_lanes) {
    for (unsigned lane = 0; lane < k_lanes; ++lane) {
      const std::uint32_t source = map.from.lane[lane];
      const bool good = ((readable >> source) & 1) != 0;
      valid &= ~(static_cast<std::uint64_t>(!good) << lane);
    }
  }
  return valid;
}

void gather_lanes(const LaneMap& map, std::uint64_t valid, const Row& in, Row& out) noexcept {
  Row mask;
  expand_mask(valid, mask);
  for (unsigned i = 0; i < k_lanes; i += k_step) {
    const auto* base = reinterpret_cast<const int*>(in.lane);
    const __m256i gathered = _mm256_i32gather_epi32(base, load_lanes(&map.from.lane[i]), 4);
    store_lanes(&out.lane[i], _mm256_and_si256(gathered, load_lanes(&mask.lane[i])));
  }
}

}  // namespace

bool dpp_control_exists(Target target, unsigned control) noexcept {
  if (control <= 0xFF) return true;
  const unsigned amount = control & 15;
  switch (control & 0x1F0) {
    case 0x100:
    case 0x110:
    case 0x120: return amount != 0;
    case 0x130: return traits(target).has_dpp_wave_shift && (amount & 3) == 0;
    case 0x140: return amount < (traits(target).has_dpp_row_broadcast ? 4 : 2);
    case 0x150: return true;
    case 0x160: return traits(target).has_dpp_row_xmask;
    default: return false;
  }
}

void permute_lanes(const WaveContext& wave, const Instruction& instruction, const Row& in, Row& out) noexcept {
  if (instruction.variant == Variant::dpp8) {
    const LaneMap map = dpp8_map(instruction.dpp.dpp8_select);
    gather_lanes(map, valid_lanes(wave, instruction, map), in, out);
  } else {
    const LaneMap& map = lane_maps()[instruction.dpp.control];
    gather_lanes(map, valid_lanes(wave, instruction, map), in, out);
  }
}

std::uint64_t dpp_write_mask(const WaveContext& wave, const Instruction& instruction) noexcept {
  if (instruction.variant == Variant::dpp8) return k_all_lanes;  // neither masks nor bounds
  constexpr std::uint64_t k_every_row = 0x0001000100010001U, k_one_row = 0xFFFF, k_one_bank = 0xF;
  std::uint64_t rows = 0, banks = 0;
  for (unsigned i = 0; i < 4; ++i) {
    if (((instruction.dpp.row_mask >> i) & 1) != 0) rows |= k_one_row << (k_row * i);
    if (((instruction.dpp.bank_mask >> i) & 1) != 0) banks |= (k_one_bank << (4 * i)) * k_every_row;
  }
  const std::uint64_t mask = rows & banks;
  if (instruction.dpp.bound_control) return mask;
  return mask & valid_lanes(wave, instruction, lane_maps()[instruction.dpp.control]);
}

}  // namespace kerncap::softgpu
