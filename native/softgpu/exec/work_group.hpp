// A resident work-group: its waves, their registers and its LDS. Lives on one worker; the object and its memory are
// used again for the next work-group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "softgpu/exec/wave.hpp"

namespace kerncap::softgpu {

struct LaunchPlan;
class GlobalWaveSync;
class ScratchSlots;

enum class WaveStatus : std::uint8_t { ready, at_barrier, ended };

struct WorkGroup {
  std::uint32_t id[3] = {0, 0, 0};
  const std::function<void(std::uint32_t m0)>* interrupt = nullptr;  // Dispatch::interrupt
  const std::function<bool(const Fault&)>* goes_on_beyond_lds = nullptr;  // Dispatch::goes_on_beyond_lds
  GlobalWaveSync* sync = nullptr;
  std::uint64_t clock_ahead_ns = 0;  // Dispatch::clock_ahead_ns
  std::vector<WaveContext> waves;
  std::vector<WaveStatus> status;

  WorkGroup() = default;
  ~WorkGroup() { release_scratch(); }
  WorkGroup(const WorkGroup&) = delete;
  WorkGroup& operator=(const WorkGroup&) = delete;

  // Scratch memory for the waves of a whole work-group. False: the queue's is all in use, try again later.
  [[nodiscard]] bool reserve_scratch(const LaunchPlan& plan);
  void release_scratch() noexcept;
  // Puts all waves at the kernel's entry.
  void start(const LaunchPlan& plan, std::uint64_t group_index, WorkerState& worker);

  [[nodiscard]] bool has(WaveStatus wanted) const noexcept {
    return std::find(status.begin(), status.end(), wanted) != status.end();
  }

 private:
  void start_wave(const LaunchPlan& plan, WaveContext& wave, std::uint32_t first_item, const std::uint32_t (&size)[3]);

  void fill_scratch(const LaunchPlan& plan) const;

  std::vector<Row> m_registers;
  std::vector<std::uint64_t> m_lds;
  ScratchSlots* m_scratch = nullptr;
  std::vector<std::uint32_t> m_slots;  // one for each wave
};

}  // namespace kerncap::softgpu
