// What KERNCAP_SOFTGPU_ACCESSES asks for: how much of given ranges of memory dispatches read and write.
//
//   file  = which " " what "\n" *( begin " " end "\n" )     addresses in decimal, ascending, [begin, end)
//   which = "first" | "all"         of each kernel its first dispatch in a process, or every dispatch
//   what  = "accesses" | "writes"   reads and writes, or writes alone, which takes less time
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "softgpu/memory/access_record.hpp"

namespace kerncap::softgpu {

class AccessLog {
 public:
  // A file that cannot be read or understood is told of, and nothing is recorded.
  explicit AccessLog(const std::string& path);

  // For a dispatch of a kernel; null: nobody wants to know. Must not outlive this object.
  [[nodiscard]] std::shared_ptr<AccessRecord> begin(std::uint64_t descriptor_va);

 private:
  [[nodiscard]] bool read_file(const std::string& path);

  bool m_is_first_only = false;
  std::vector<AccessRange> m_ranges;
  std::mutex m_mutex;
  std::set<std::uint64_t> m_seen;
};

}  // namespace kerncap::softgpu
