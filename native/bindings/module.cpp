// The Python extension module: converts and delegates, nothing else. nanobind is included in this folder only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <regex>
#include <string>

#include "bindings/bindings.hpp"
#include "core/version.hpp"

namespace nb = nanobind;

namespace {

std::optional<std::string> runtime_demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  if (status != 0 || !text) return std::nullopt;
  return std::string(text.get());
}

// Clang writes how `template <auto... Ns>` declares its parameter (TpTnDa) before the argument. GCC's runtime may not
// know that, and the readable name has none of it.
std::string without_auto_declarations(const std::string& name) {
  static const std::regex declaration("(Tp)?TnD[ac]");
  return std::regex_replace(name, declaration, "");
}

// What the C++ runtime's own demangler says; a name that is not mangled comes back as it is.
std::string demangle(const std::string& name) {
  if (auto text = runtime_demangled(name)) return *text;
  if (name.starts_with("_Z") && name.find("TnD") != std::string::npos)
    return runtime_demangled(without_auto_declarations(name)).value_or(name);
  return name;
}

}  // namespace

NB_MODULE(_native, module) {
  module.def("version", [] { return std::string(kerncap::core::version()); });
  module.def("demangle", &demangle, nb::arg("name"));
  kerncap::bindings::hear_interrupts();
  kerncap::bindings::bind_store(module);
  kerncap::bindings::bind_transaction(module);
}
