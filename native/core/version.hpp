// The version of the native parts, checked against the Python package's at import.
#pragma once

#include <string_view>

namespace kerncap::core {

[[nodiscard]] std::string_view version() noexcept;

}  // namespace kerncap::core
