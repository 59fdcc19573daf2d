// Errors as values: every fallible native function returns Result<T>; nothing throws across a module.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace kerncap::core {

// Maps one to one to the exception classes of kerncap_stages/errors.py.
enum class ErrorCode {
  invalid_argument,   // the caller's fault
  not_found,          // the named thing is absent
  damaged,            // bytes that do not hash to their name, truncated frames, bad structure
  malformed,          // bytes as they were written, in a form that what refers to them does not allow
  no_space,           // the disk is full or a quota is reached
  file_limit,         // the process may not write files this large (RLIMIT_FSIZE)
  permission,         // not ours to read or write
  io,                 // any other system call failure
  timeout,            // a bounded wait ran out
  device,             // the GPU, its runtime or its driver refused
  unsupported,        // a kind of memory, packet or target that we name and do not handle
  stalled,            // who should take our data took none within a bounded wait: nothing of ours is under way
};

struct Error {
  ErrorCode code;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : m_state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : m_state(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return m_state.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  [[nodiscard]] T& value() & noexcept { assert(ok()); return *std::get_if<0>(&m_state); }
  [[nodiscard]] const T& value() const& noexcept { assert(ok()); return *std::get_if<0>(&m_state); }
  [[nodiscard]] T&& value() && noexcept { assert(ok()); return std::move(*std::get_if<0>(&m_state)); }
  [[nodiscard]] const Error& error() const noexcept { assert(!ok()); return *std::get_if<1>(&m_state); }

 private:
  std::variant<T, Error> m_state;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : m_error(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return m_error.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] const Error& error() const noexcept { assert(!ok()); return *std::get_if<1>(&m_error); }

 private:
  std::variant<std::monostate, Error> m_error;
};

}  // namespace kerncap::core
