// The parts of the extension module, and how errors cross into Python.
#pragma once

#include <nanobind/nanobind.h>

#include "core/result.hpp"

namespace kerncap::bindings {

void bind_store(nanobind::module_& module);

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

}  // namespace kerncap::bindings
