// Native errors become the exceptions of kerncap_stages/errors.py, each with its next step.
#include <nanobind/nanobind.h>

#include <unistd.h>

#include "bindings/bindings.hpp"
#include "core/interrupt.hpp"

namespace nb = nanobind;

namespace kerncap::bindings {
namespace {

struct Exception {
  const char* name;
  const char* hint;  // none where the caller knows better
};

Exception exception_for(core::ErrorCode code) {
  switch (code) {
    case core::ErrorCode::invalid_argument: return {"UsageError", nullptr};
    case core::ErrorCode::not_found:
      return {"ArtifactNotFound", "`kc-store check` names every artifact that is affected; make those again"};
    case core::ErrorCode::damaged:
      return {"DigestMismatch", "`kc-store check --repair` sets damaged objects aside; then make or import those "
                                "artifacts again"};
    case core::ErrorCode::malformed:
      return {"DigestMismatch", "the object is stored as it was written, so `kc-store check --repair` cannot mend it: run "
                                "the stage that made its artifact again, with this version, and delete the old "
                                "artifact with `kc-store rm`"};
    case core::ErrorCode::no_space:
      return {"StoreError", "free space on that disk, or use another store (--store DIR), and run this again: what "
                            "was in the store is whole"};
    case core::ErrorCode::file_limit:
      return {"StoreError", "a limit on the size of files stopped this: raise it (`ulimit -f unlimited`), and run this "
                            "again: what was in the store is whole"};
    case core::ErrorCode::permission:
      return {"StoreError", "use a store that you may write to: --store DIR; `kc-store export` copies artifacts out of "
                            "this one"};
    case core::ErrorCode::stalled:
    case core::ErrorCode::timeout: return {"StoreError", "wait for the stages that use it to end, then run this again"};
    case core::ErrorCode::device: return {"DeviceError", nullptr};
    case core::ErrorCode::unsupported: return {"Refused", "use the kerncap-stages that made it, or a newer one"};
    case core::ErrorCode::io: return {"StoreError", "look at the disk and its file system, then run this again"};
  }
  return {"StoreError", nullptr};
}

// Python runs signal handlers on its main thread only; others must not even wait for the interpreter lock.
bool interrupted() {
  if (::gettid() != ::getpid()) return false;
  const nb::gil_scoped_acquire acquire;
  return PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
}

}  // namespace

void hear_interrupts() noexcept { core::set_interrupt_check(&interrupted); }

void raise_error(const core::Error& error) {
  raise_interrupt();
  const auto [name, hint] = exception_for(error.code);
  const nb::object type = nb::module_::import_("kerncap_stages.errors").attr(name);
  // A path in it need not be UTF-8: as Python itself would read it.
  const char* const message = error.message.c_str();
  const auto size = static_cast<Py_ssize_t>(error.message.size());
  const nb::object text = nb::steal(PyUnicode_DecodeFSDefaultAndSize(message, size));
  if (!text.is_valid()) throw nb::python_error();
  nb::object value = type(text);
  if (hint != nullptr) value.attr("hint") = nb::str(hint);
  PyErr_SetObject(type.ptr(), value.ptr());
  throw nb::python_error();
}

core::Digest parse(const std::string& text) {
  const auto digest = core::Digest::from_hex(text);
  if (!digest) raise_error({core::ErrorCode::invalid_argument, "not a digest: " + text});
  return *digest;
}

std::vector<core::Digest> parse(const std::vector<std::string>& texts) {
  std::vector<core::Digest> digests;
  digests.reserve(texts.size());
  for (const auto& text : texts) digests.push_back(parse(text));
  return digests;
}

}  // namespace kerncap::bindings
