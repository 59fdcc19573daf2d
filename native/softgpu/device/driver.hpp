// The emulated kernel driver of this process: what /dev/kfd and the render nodes lead to.
//
// Made when the first of its files is asked for, never destroyed: HIP submits packets after static destructors have
// run. The child of a fork has none until it asks again; what it inherited is left alone.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "softgpu/device/buffers.hpp"
#include "softgpu/device/events.hpp"
#include "softgpu/device/file_tree.hpp"
#include "softgpu/device/gpu.hpp"
#include "softgpu/device/instruction_log.hpp"
#include "softgpu/device/memory_file.hpp"
#include "softgpu/device/scheduler.hpp"
#include "softgpu/device/settings.hpp"
#include "softgpu/device/svm.hpp"
#include "softgpu/device/topology.hpp"
#include "softgpu/exec/engine.hpp"

namespace kerncap::softgpu {

// What a handle of the memory file stands for; kept as its file position.
enum class HandleKind : std::uint8_t { none, kfd, render, dma_buf };
struct Handle {
  HandleKind kind = HandleKind::none;
  unsigned gpu_index = 0;         // render
  std::uint64_t offset = 0;       // dma_buf: of the buffer, in the memory file
};

class Driver {
 public:
  // Null when the settings are bad, which has been reported then.
  [[nodiscard]] static Driver* instance() noexcept;
  // The same, without making one.
  [[nodiscard]] static Driver* existing() noexcept;
  static void forget_in_child() noexcept;

  [[nodiscard]] const Settings& settings() const noexcept { return m_settings; }
  [[nodiscard]] const std::vector<std::unique_ptr<Gpu>>& gpus() const noexcept { return m_gpus; }
  [[nodiscard]] Gpu* gpu(std::uint32_t id) const noexcept;
  [[nodiscard]] const std::shared_ptr<MemoryFile>& memory() const noexcept { return m_memory; }
  [[nodiscard]] BufferTable& buffers() noexcept { return m_buffers; }
  [[nodiscard]] EventTable& events() noexcept { return m_events; }
  [[nodiscard]] SvmRanges& svm() noexcept { return m_svm; }
  [[nodiscard]] Scheduler& scheduler() noexcept { return m_scheduler; }
  // Whose turn it is in dispatches from now on. Null: as the settings say.
  void choose_schedule(const Schedule* schedule) { m_engine.choose_schedule(schedule != nullptr ? *schedule : m_settings.schedule); }

  // File descriptors; -1 and errno.
  [[nodiscard]] int open_device(DeviceNode node, int flags) noexcept;
  [[nodiscard]] Handle handle_of(int fd) const noexcept;

  // The result of the system call: 0, or -1 and errno.
  [[nodiscard]] int ioctl(unsigned long request, void* argument) noexcept;

  // Queues, by the driver's number. 0: cannot be made.
  [[nodiscard]] std::uint32_t create_queue(Gpu& gpu, QueueSettings settings, bool copies);
  bool destroy_queue(std::uint32_t id);
  [[nodiscard]] std::shared_ptr<Queue> queue(std::uint32_t id) const;

 private:
  Driver(const Settings& settings, std::shared_ptr<MemoryFile> memory);
  [[nodiscard]] static Driver* make();

  Settings m_settings;
  std::shared_ptr<MemoryFile> m_memory;
  std::vector<std::unique_ptr<Gpu>> m_gpus;
  BufferTable m_buffers;
  EventTable m_events;
  SvmRanges m_svm;
  std::unique_ptr<InstructionLog> m_log;
  std::unique_ptr<AccessLog> m_accesses;  // outlives m_engine, whose dispatches it records
  LdsWatch m_lds;
  ClockJumps m_clock;
  Engine m_engine;
  Scheduler m_scheduler;
  mutable std::mutex m_mutex;
  std::unordered_map<std::uint32_t, std::shared_ptr<Queue>> m_queues;
  std::vector<std::vector<bool>> m_doorbells;  // by GPU: taken
};

}  // namespace kerncap::softgpu
