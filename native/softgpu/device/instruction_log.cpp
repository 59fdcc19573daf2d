#include "softgpu/device/instruction_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "softgpu/device/report.hpp"

namespace kerncap::softgpu {
namespace {

// By InstructionClass.
constexpr const char* k_class_names[] = {"salu",       "smem",       "valu",        "matrix", "lds", "vmem_load",
                                         "vmem_store", "vmem_atomic", "branch", "sync",   "other"};
static_assert(sizeof k_class_names / sizeof *k_class_names == k_class_count);

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (static_cast<unsigned char>(c) >= 0x20) out.push_back(c);
  }
}

template <typename T>
void append_triple(std::string& out, const T (&values)[3]) {
  for (unsigned i = 0; i < 3; ++i) out.append(i == 0 ? "[" : ",").append(std::to_string(values[i]));
  out.append("]");
}

}  // namespace

InstructionLog::InstructionLog(std::string path) : m_path(std::move(path)) {
  if (m_path == "-") return;
  m_fd = open(m_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (m_fd < 0) report("cannot write instruction counts to %s: %s", m_path.c_str(), std::strerror(errno));
}

void InstructionLog::add(unsigned gpu, std::uint32_t queue, std::uint64_t dispatch_id, std::string_view kernel,
                         const aql::KernelDispatch& packet, const InstructionCounts& counts) noexcept {
  if (m_path == "-") {
    std::string classes;
    for (unsigned i = 0; i < k_class_count; ++i) {
      if (counts.by_class[i] == 0) continue;
      classes.append(" ").append(k_class_names[i]).append("=").append(std::to_string(counts.by_class[i]));
    }
    report("gpu %u: %.*s: %llu wave-instructions:%s", gpu, static_cast<int>(kernel.size()), kernel.data(),
           static_cast<unsigned long long>(counts.total), classes.c_str());
    return;
  }
  if (m_fd < 0) return;
  std::string line = "{\"pid\":" + std::to_string(getpid()) + ",\"gpu\":" + std::to_string(gpu) +
                     ",\"queue\":" + std::to_string(queue) + ",\"dispatch\":" + std::to_string(dispatch_id) +
                     ",\"kernel\":\"";
  append_escaped(line, kernel);
  line.append("\",\"grid_work_items\":");
  append_triple(line, packet.grid_size);
  line.append(",\"group_work_items\":");
  append_triple(line, packet.workgroup_size);
  line.append(",\"wave_instructions\":").append(std::to_string(counts.total)).append(",\"by_class\":{");
  for (unsigned i = 0; i < k_class_count; ++i) {
    line.append(i == 0 ? "\"" : ",\"").append(k_class_names[i]).append("\":").append(std::to_string(counts.by_class[i]));
  }
  line.append("}}\n");
  // One write, so that lines of several processes do not mix.
  const std::lock_guard lock(m_mutex);
  if (write(m_fd, line.data(), line.size()) < 0) m_fd = -1;
}

}  // namespace kerncap::softgpu
