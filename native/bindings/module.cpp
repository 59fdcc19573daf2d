// The Python extension module: converts and delegates, nothing else. nanobind is included in this folder only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/bindings.hpp"
#include "core/freed_memory.hpp"
#include "core/version.hpp"

namespace nb = nanobind;

NB_MODULE(_native, module) {
  // When a stage ends, nobody looks for garbage any more: what is in a circle of references stays.
  nb::set_leak_warnings(false);
  module.def("version", [] { return std::string(kerncap::core::version()); });
  module.def("demangle", &kerncap::bindings::demangle, nb::arg("name"));
  module.def("keep_freed_memory", &kerncap::core::keep_freed_memory);
  kerncap::bindings::hear_interrupts();
  kerncap::bindings::bind_store(module);
  kerncap::bindings::bind_transaction(module);
}
