// The Python extension module: converts and delegates, nothing else. nanobind is included in this folder only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "bindings/bindings.hpp"
#include "core/version.hpp"

namespace nb = nanobind;

namespace {

// What the C++ runtime's own demangler says; a name that is not mangled comes back as it is.
std::string demangle(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? std::string(text.get()) : name;
}

}  // namespace

NB_MODULE(_native, module) {
  module.def("version", [] { return std::string(kerncap::core::version()); });
  module.def("demangle", &demangle, nb::arg("name"));
  kerncap::bindings::hear_interrupts();
  kerncap::bindings::bind_store(module);
  kerncap::bindings::bind_transaction(module);
}
