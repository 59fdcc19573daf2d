// The parts of the extension module, and what they share: errors, digests and buffers cross into Python here.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/digest.hpp"
#include "core/result.hpp"

namespace kerncap::bindings {

void bind_store(nanobind::module_& module);
void bind_transaction(nanobind::module_& module);

// What the C++ runtime's own demangler says; a name that is not mangled comes back as it is.
[[nodiscard]] std::string demangle(const std::string& name);

// Lets Ctrl-C end the waits of native code.
void hear_interrupts() noexcept;

// Raises what a signal handler raised while native code waited. Holds the interpreter lock.
inline void raise_interrupt() {
  if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
}

// Raises the class of kerncap_stages/errors.py that belongs to the error's code.
[[noreturn]] void raise_error(const core::Error& error);

template <typename T>
T take(core::Result<T> result) {
  if (!result) raise_error(result.error());
  return std::move(result).value();
}

inline void take(const core::Result<void>& result) {
  if (!result) raise_error(result.error());
}

// What `call` returns, or its error raised; other Python threads run meanwhile.
template <typename Call>
auto without_gil(const Call& call) {
  auto result = [&] {
    const nanobind::gil_scoped_release release;
    return call();
  }();
  raise_interrupt();
  return take(std::move(result));
}

// Raises UsageError for anything but 64 lower-case hexadecimal digits.
[[nodiscard]] core::Digest parse(const std::string& text);
[[nodiscard]] std::vector<core::Digest> parse(const std::vector<std::string>& texts);

// Borrows the memory of any C-contiguous buffer, whatever its element type. nb::ndarray would refuse types that it
// does not know, such as bfloat16, and would need numpy.
class BorrowedBytes {
 public:
  BorrowedBytes(const nanobind::handle& object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &m_view, flags) != 0) throw nanobind::python_error();
  }
  BorrowedBytes(const BorrowedBytes&) = delete;
  BorrowedBytes& operator=(const BorrowedBytes&) = delete;
  ~BorrowedBytes() { PyBuffer_Release(&m_view); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return writable(); }
  [[nodiscard]] std::span<std::byte> writable() const noexcept {
    return {static_cast<std::byte*>(m_view.buf), static_cast<std::size_t>(m_view.len)};
  }

 private:
  Py_buffer m_view{};
};

}  // namespace kerncap::bindings
