// A resident work-group: its LDS and its waves. Lives on one worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "softgpu/exec/wave.hpp"

namespace kerncap::softgpu {

struct WorkGroup {
  enum class WaveStatus : std::uint8_t { ready, at_barrier, ended };

  std::uint32_t id[3] = {0, 0, 0};
  const std::function<void(std::uint32_t)>* interrupt = nullptr;
  std::vector<WaveContext> waves;
  std::vector<WaveStatus> status;
};

}  // namespace kerncap::softgpu
