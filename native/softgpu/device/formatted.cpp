#include "softgpu/device/formatted.hpp"

#include <cstdarg>
#include <cstdio>

namespace kerncap::softgpu {

std::string formatted(const char* format, ...) {
  char text[501];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

}  // namespace kerncap::softgpu
