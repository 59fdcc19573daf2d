// The instruction set architectures that the software GPU executes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kerncap::softgpu {

enum class Target : std::uint8_t { gfx90a, gfx942, gfx1100 };
inline constexpr unsigned k_target_count = 3;

[[nodiscard]] constexpr std::string_view name(Target target) noexcept {
  constexpr std::string_view k_names[k_target_count] = {"gfx90a", "gfx942", "gfx1100"};
  return k_names[static_cast<unsigned>(target)];
}

[[nodiscard]] constexpr std::optional<Target> parse_target(std::string_view text) noexcept {
  for (unsigned i = 0; i < k_target_count; ++i) {
    if (name(static_cast<Target>(i)) == text) return static_cast<Target>(i);
  }
  return std::nullopt;
}

[[nodiscard]] constexpr bool is_cdna(Target target) noexcept { return target != Target::gfx1100; }

// Where the two register numberings differ: operand 124 is m0 on CDNA and null on RDNA3, 125 the other way round.
[[nodiscard]] constexpr unsigned m0_index(Target target) noexcept { return is_cdna(target) ? 124 : 125; }

}  // namespace kerncap::softgpu
