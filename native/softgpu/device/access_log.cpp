#include "softgpu/device/access_log.hpp"

#include <fstream>

#include "softgpu/device/report.hpp"
#include "softgpu/memory/recorded_reads.hpp"

namespace kerncap::softgpu {

AccessLog::AccessLog(const std::string& path) {
  if (read_file(path)) return;
  m_ranges.clear();
  report("%s is no list of ranges of memory; accesses are not recorded", path.c_str());
}

bool AccessLog::read_file(const std::string& path) {
  std::ifstream file(path);
  std::string which, what;
  if (!(file >> which >> what) || (which != "first" && which != "all") || (what != "accesses" && what != "writes")) return false;
  m_is_first_only = which == "first";
  g_records_reads = what == "accesses";
  AccessRange range;
  while (file >> range.begin >> range.end) {
    if (range.begin >= range.end || (!m_ranges.empty() && range.begin < m_ranges.back().end)) return false;
    m_ranges.push_back(range);
  }
  return file.eof();
}

std::shared_ptr<AccessRecord> AccessLog::begin(std::uint64_t descriptor_va) {
  if (m_ranges.empty()) return nullptr;
  if (m_is_first_only) {
    const std::lock_guard lock(m_mutex);
    if (!m_seen.insert(descriptor_va).second) return nullptr;
  }
  return std::make_shared<AccessRecord>(m_ranges);
}

}  // namespace kerncap::softgpu
