// The library that holds a function, asked for other functions.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "core/real_dlsym.hpp"

namespace kerncap::rtc {

class ItsLibrary {
 public:
  // Throws std::runtime_error, as the others do.
  explicit ItsLibrary(const void* function) {
    Dl_info info{};
    if (::dladdr(function, &info) == 0 || info.dli_fname == nullptr) throw std::runtime_error("a compiler's file is unknown");
    m_path = info.dli_fname;
    m_handle = ::dlopen(m_path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (m_handle == nullptr) throw std::runtime_error(m_path + " cannot be asked");
    ::dlclose(m_handle);  // it stays: the program calls it
  }

  [[nodiscard]] const std::string& path() const noexcept { return m_path; }

  template <typename Function>
  void load(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(core::real_dlsym()(m_handle, name));
    if (function == nullptr) throw std::runtime_error(m_path + " has no " + name);
  }

 private:
  std::string m_path;
  void* m_handle = nullptr;
};

// Where the process works: relative paths in options begin there.
[[nodiscard]] std::string working_folder();

}  // namespace kerncap::rtc
