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

  // Reads the descriptor and preloaded arguments. The fault says what cannot be: a descriptor that is not in memory,
  // asks for impossible registers, or a dispatch without the scratch memory that the kernel needs.
  [[nodiscard]] static core::Result<LaunchPlan> make(Dispatch dispatch);
};

}  // namespace kerncap::softgpu
