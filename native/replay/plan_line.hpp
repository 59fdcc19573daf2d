// The words of one line of a plan, read one after the other. Each back end reads its own lines with it, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerncap::replay {

// `ok` turns false at the first word that is missing, or is not what was asked for.
class PlanLine {
 public:
  explicit PlanLine(std::string_view line) : m_rest(line) {}

  std::string_view word();
  // All that is left of the line, at least one letter.
  std::string_view rest();
  // The same as a path: \\ stands for a backslash, \n for a line break.
  std::string path();
  std::uint64_t number();                 // decimal or 0x...
  std::uint32_t small();                  // a number of 32 bits
  void dim3(std::uint32_t (&out)[3]);
  std::uint32_t device();                 // `-`: none
  std::vector<std::byte> bytes();         // in hexadecimal digits; `-`: none
  // Whether a role is the variant's, not the baseline's.
  bool of_variant();

  bool ok = true;

 private:
  std::string_view m_rest;
};

}  // namespace kerncap::replay
