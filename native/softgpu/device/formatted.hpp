// Part of a message, as printf makes it: up to 500 characters.
#pragma once

#include <string>

namespace kerncap::softgpu {

[[nodiscard, gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

}  // namespace kerncap::softgpu
