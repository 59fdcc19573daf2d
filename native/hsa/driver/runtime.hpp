// ROCr, opened when a replay starts: building and installing need its headers only.
#pragma once

#include "core/result.hpp"
#include "hsa/hsa_headers.hpp"

namespace kerncap::hsa {

struct Runtime {
#define KERNCAP_RUNTIME(function) decltype(&::function) function = nullptr;
#include "hsa/driver/runtime.def"
#undef KERNCAP_RUNTIME
};

// Names every function that is missing.
[[nodiscard]] core::Result<Runtime> open_runtime();

// "what: HSA_STATUS_ERROR_..."
[[nodiscard]] core::Error runtime_error(const Runtime& runtime, const std::string& what, hsa_status_t status);

}  // namespace kerncap::hsa
