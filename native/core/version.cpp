// Carries the project version that the build system knows.
#include "core/version.hpp"

namespace kerncap::core {

std::string_view version() noexcept { return "0.1.0"; }

}  // namespace kerncap::core
