// What all work-groups of a dispatch have in common, worked out once.
#pragma once

#include <array>
#include <cstdint>

#include "core/result.hpp"
#include "softgpu/exec/dispatch.hpp"
#include "softgpu/exec/kernel_descriptor.hpp"

namespace kerncap::softgpu {

class GlobalWaveSync;

struct LaunchPlan {
  Dispatch dispatch;
  KernelDescriptor kernel;
  std::uint64_t entry_pc = 0;
  std::array<std::uint32_t, 16> user_sgprs{};  // as every wave finds them
  std::uint32_t groups[3] = {0, 0, 0};
  std::uint64_t group_count = 0;
  std::uint64_t max_resident_groups = 0;  // what the compute units have room for; at least one
  GlobalWaveSync* sync = nullptr;  // the engine's, for this GPU

  // Waves that so many work-items fill, the last one perhaps in part; items is not 0.
  [[nodiscard]] std::uint32_t waves_of(std::uint32_t items) const noexcept { return (items - 1) / lanes() + 1; }
  // Those of a work-group that the grid does not cut off.
  [[nodiscard]] std::uint32_t waves_per_group() const noexcept {
    return waves_of(std::uint32_t{dispatch.group[0]} * dispatch.group[1] * dispatch.group[2]);
  }
  [[nodiscard]] unsigned lanes() const noexcept { return traits(dispatch.target).lanes; }

  // Reads the descriptor and preloaded arguments. The fault says what cannot be: a descriptor that is not in memory,
  // asks for impossible registers, or a dispatch without the scratch memory that the kernel needs.
  [[nodiscard]] static core::Result<LaunchPlan> make(Dispatch dispatch);
};

}  // namespace kerncap::softgpu
