// Addresses in messages.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace kerncap::core {

[[nodiscard]] inline std::string hex(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%lx", value);
  return text;
}

}  // namespace kerncap::core
