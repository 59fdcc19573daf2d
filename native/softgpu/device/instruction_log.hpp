// What --count writes: the instructions of each dispatch, by class. One JSON object a line, or text for people.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "softgpu/device/aql.hpp"
#include "softgpu/exec/dispatch.hpp"

namespace kerncap::softgpu {

// Raise it when a member of the JSON objects changes its meaning or goes; docs/software-gpu.md has them all.
inline constexpr unsigned k_count_version = 1;

struct CountedDispatch {
  Target target;
  unsigned gpu;
  std::uint32_t queue;
  std::uint64_t dispatch_id;
  std::string symbol;  // of the kernel
  const aql::KernelDispatch& packet;
  const InstructionCounts& counts;
  const AccessRecord* accesses = nullptr;  // null: not recorded
};

class InstructionLog {
 public:
  // "-": text on standard error; else a file that is created, or appended to by several processes.
  explicit InstructionLog(std::string path);

  void add(const CountedDispatch& dispatch) noexcept;

 private:
  std::mutex m_mutex;
  std::string m_path;
  int m_fd = -1;
};

}  // namespace kerncap::softgpu
