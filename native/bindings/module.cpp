// The Python extension module: converts and delegates, nothing else. The only file that includes nanobind.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "core/version.hpp"

namespace nb = nanobind;

NB_MODULE(_native, module) {
  module.def("version", [] { return std::string(kerncap::core::version()); });
}
