#include "softgpu/device/instruction_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "softgpu/device/kernel_name.hpp"
#include "softgpu/device/report.hpp"

namespace kerncap::softgpu {
namespace {

// By InstructionClass.
constexpr const char* k_class_names[] = {"salu",       "smem",       "valu",        "matrix", "lds", "vmem_load",
                                         "vmem_store", "vmem_atomic", "branch", "sync",   "other"};
static_assert(sizeof k_class_names / sizeof *k_class_names == k_class_count);

// The length of the UTF-8 sequence at the front of `text`; 0: none begins there.
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) >= 0xC2 && byte(0) < 0xE0 ? 2 : byte(0) >> 4 == 0xE ? 3
                             : byte(0) >= 0xF0 && byte(0) < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2) return 0;
  }
  if (length == 3 && ((byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) >= 0xA0))) return 0;
  if (length == 4 && ((byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) >= 0x90))) return 0;
  return length;
}

// A JSON string. The name comes from somebody's code object, and may hold anything.
void append_string(std::string& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out.append("\\ufffd");
    } else if (first < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", first);
      out.append(escape);
    } else {
      if (first == '"' || first == '\\') out.push_back('\\');
      out.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out.push_back('"');
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

void InstructionLog::add(const CountedDispatch& dispatch) noexcept {
  const InstructionCounts& counts = dispatch.counts;
  const std::string readable = readable_name(dispatch.symbol);
  if (m_path == "-") {
    std::string classes;
    for (unsigned i = 0; i < k_class_count; ++i) {
      if (counts.by_class[i] == 0) continue;
      classes.append(" ").append(k_class_names[i]).append("=").append(std::to_string(counts.by_class[i]));
    }
    report("gpu %u: %s: %llu wave-instructions:%s", dispatch.gpu, readable.c_str(),
           static_cast<unsigned long long>(counts.total), classes.c_str());
    return;
  }
  if (m_fd < 0) return;
  std::string line = "{\"version\":" + std::to_string(k_count_version) + ",\"pid\":" + std::to_string(getpid()) +
                     ",\"target\":\"" + std::string(name(dispatch.target)) + "\",\"gpu\":" + std::to_string(dispatch.gpu) +
                     ",\"queue\":" + std::to_string(dispatch.queue) + ",\"dispatch\":" + std::to_string(dispatch.dispatch_id);
  line.append(",\"kernel\":");
  append_string(line, readable);
  line.append(",\"symbol\":");
  append_string(line, dispatch.symbol);
  line.append(",\"grid_work_items\":");
  append_triple(line, dispatch.packet.grid_size);
  line.append(",\"group_work_items\":");
  append_triple(line, dispatch.packet.workgroup_size);
  line.append(",\"wave_instructions\":").append(std::to_string(counts.total)).append(",\"by_class\":{");
  for (unsigned i = 0; i < k_class_count; ++i) {
    line.append(i == 0 ? "\"" : ",\"").append(k_class_names[i]).append("\":").append(std::to_string(counts.by_class[i]));
  }
  line.append("}");
  if (dispatch.accesses != nullptr && dispatch.accesses->is_whole()) {
    const char* separator = ",\"accesses\":[[";
    for (const AccessRecord::Count& count : dispatch.accesses->counts()) {
      line.append(separator).append(std::to_string(count.read_bytes)).append(",").append(std::to_string(count.written_bytes));
      separator = "],[";
    }
    line.append("]]");
  }
  line.append("}\n");
  // One write, so that lines of several processes do not mix.
  const std::lock_guard lock(m_mutex);
  if (write(m_fd, line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
  report("cannot write instruction counts to %s: %s", m_path.c_str(), std::strerror(errno));
  close(m_fd);
  m_fd = -1;
}

}  // namespace kerncap::softgpu
