// Readable names of mangled ones, by the C++ runtime's demangler.
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bindings/bindings.hpp"

namespace kerncap::bindings {

namespace {

std::optional<std::string> runtime_demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  if (status != 0 || !text) return std::nullopt;
  return std::string(text.get());
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The end of a concept's name: [St] <length> <that many characters>, or N with several of these and E; 0 for another.
std::size_t concept_end(std::string_view name, std::size_t at) {
  const bool is_nested = at < name.size() && name[at] == 'N';
  if (is_nested) ++at;
  if (name.substr(at, 2) == "St") at += 2;
  bool is_first = true;
  while (at < name.size() && is_digit(name[at]) && (is_nested || is_first)) {
    std::size_t length = 0;
    while (at < name.size() && is_digit(name[at]) && length < name.size())
      length = 10 * length + static_cast<std::size_t>(name[at++] - '0');
    if (length > name.size() - at) return 0;
    at += length;
    is_first = false;
  }
  if (is_first || (is_nested && (at >= name.size() || name[at] != 'E'))) return 0;
  return is_nested ? at + 1 : at;
}

// The end of a template parameter's declaration, [Tp] TnDa or [Tp] Tk <concept>; 0 where none begins.
std::size_t declaration_end(std::string_view name, std::size_t at) {
  if (name.substr(at, 2) == "Tp") at += 2;
  const std::string_view kind = name.substr(at, 4);
  if (kind == "TnDa" || kind == "TnDc") return at + 4;
  return kind.starts_with("Tk") ? concept_end(name, at + 2) : 0;
}

// Clang writes how `template <auto... Ns>` and `template <std::integral T>` declare their parameters before the
// arguments. GCC's runtime may not know that, and the readable name has none of it.
std::string without_declarations(std::string_view name) {
  std::string rest;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = name[at] == 'T' ? declaration_end(name, at) : 0;
    if (end == 0) rest += name[at++];
    else at = end;
  }
  return rest;
}

}  // namespace

std::string demangle(const std::string& name) {
  if (auto text = runtime_demangled(name)) return *text;
  if (!name.starts_with("_Z")) return name;
  const std::string rest = without_declarations(name);
  return rest == name ? name : runtime_demangled(rest).value_or(name);
}

}  // namespace kerncap::bindings
