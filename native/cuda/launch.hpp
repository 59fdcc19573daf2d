// One kernel launch, whichever driver call it came through.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"
#include "cuda/function_table.hpp"

namespace kerncap::cuda {

struct LaunchCall {
  CUfunction function = nullptr;        // or a CUkernel: the driver takes either
  std::uint32_t grid_blocks[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
  CUstream stream = nullptr;
  CUcontext context = nullptr;          // of a graph's node, where that says
  void** parameters = nullptr;          // one pointer for each parameter, or null
  void** extra = nullptr;
  bool cooperative = false;
  bool is_of_cuda_3 = false;            // block, shared memory and parameters were set by calls before it, and nobody tells them
  std::uint32_t cluster[3] = {};
  std::span<const CUlaunchAttribute> attributes;   // of whoever gave them
};

// The grid, the block and the shared memory of a call's parameters, or of a graph's node.
template <typename Parameters>
void read_shape(const Parameters& from, LaunchCall& launch) noexcept {
  launch.grid_blocks[0] = from.gridDimX;
  launch.grid_blocks[1] = from.gridDimY;
  launch.grid_blocks[2] = from.gridDimZ;
  launch.block[0] = from.blockDimX;
  launch.block[1] = from.blockDimY;
  launch.block[2] = from.blockDimZ;
  launch.dynamic_shared_bytes = from.sharedMemBytes;
}

// What a driver call that launches a kernel says (UnderWay::launch): no function where the program gave nothing to launch.
// `parameters` belong to the callback.
[[nodiscard]] LaunchCall read_launch(CUpti_CallbackId call, const void* parameters) noexcept;

// Those of a launch, which may ask for clusters or cooperation; they outlive it.
void give_attributes(std::span<const CUlaunchAttribute> attributes, LaunchCall& launch) noexcept;

// All parameters as the kernel sees them, by offset. `function` is a CUfunction.
[[nodiscard]] core::Result<std::vector<std::byte>> pack_parameters(CUfunction function, const LaunchCall& launch);

// What the driver knows of a launch and HSA's packet has no room for: "key=value" lines.
[[nodiscard]] std::string describe_attributes(CUfunction function, const LaunchCall& launch);

}  // namespace kerncap::cuda
