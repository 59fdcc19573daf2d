// What was compiled, as a file for kc-capture (kerncap_stages/collect/rtc_records.py):
//
//   record = "kerncap-rtc 1" LF *field
//   field  = name " " size LF value LF           size: decimal, of the value in bytes
//
// The order matters: `name` is that of the source or header that follows it. Large texts are in files of their own, which `source_file`
// and `header_file` name.
#pragma once

#include <string>
#include <string_view>

namespace kerncap::rtc {

class Record {
 public:
  // Throws std::bad_alloc.
  void add(std::string_view name, std::string_view value);
  // A source or a header. Throws std::system_error.
  void add_text(const std::string& name, std::string_view text);
  // Writes the file as a whole, or not at all. Throws std::system_error.
  void write() const;

 private:
  std::string m_text = "kerncap-rtc 1\n";
};

// Whether kc-capture wants records.
[[nodiscard]] bool recording() noexcept;
// Tells kc-capture that something could not be recorded, and why.
void report(std::string_view why) noexcept;

}  // namespace kerncap::rtc
