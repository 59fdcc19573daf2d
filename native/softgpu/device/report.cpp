#include "softgpu/device/report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace kerncap::softgpu {
namespace {

bool g_tracing = false;

void write_line(const char* format, va_list arguments) noexcept {
  const int saved_errno = errno;
  char line[2048] = "kerncap software GPU: ";
  const std::size_t prefix = sizeof "kerncap software GPU: " - 1;
  const int length = std::vsnprintf(line + prefix, sizeof line - prefix - 1, format, arguments);
  std::size_t end = prefix + std::min(static_cast<std::size_t>(std::max(length, 0)), sizeof line - prefix - 2);
  line[end++] = '\n';
  for (const char* p = line; p < line + end;) {
    const ssize_t written = write(STDERR_FILENO, p, static_cast<std::size_t>(line + end - p));
    if (written <= 0) break;
    p += written;
  }
  errno = saved_errno;
}

}  // namespace

bool is_tracing() noexcept { return g_tracing; }
void set_tracing(bool on) noexcept { g_tracing = on; }

void report(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

void trace(const char* format, ...) noexcept {
  if (!g_tracing) return;
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

}  // namespace kerncap::softgpu
