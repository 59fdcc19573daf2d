#include "softgpu/device/refusals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

#include "softgpu/device/report.hpp"
#include "softgpu/device/system_files.hpp"

namespace kerncap::softgpu {
namespace {

constexpr std::size_t k_most = 1000;  // a program may go on for hours, with another reason each time

[[nodiscard]] bool is_new(const std::string& text) {
  static auto& mutex = *new std::mutex;
  static auto& told = *new std::set<std::string>;  // never destroyed: programs launch kernels in static destructors
  const std::lock_guard lock(mutex);
  return told.size() < k_most && told.insert(text).second;
}

void append(const std::string& path, std::string line) {
  std::ranges::replace(line, '\n', ' ');
  line.push_back('\n');
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  // One write, so that lines of several processes do not mix.
  if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    report("cannot write refusals to %s: %s", path.c_str(), std::strerror(errno));
  }
  if (file >= 0) close(file);
}

}  // namespace

void tell_refusal(const std::string& text) noexcept {
  const int saved_errno = errno;
  if (is_new(text)) {
    report("%s", text.c_str());
    const Settings* settings = process_settings();
    if (settings != nullptr && !settings->refusals_path.empty()) append(settings->refusals_path, text);
  }
  errno = saved_errno;
}

}  // namespace kerncap::softgpu
