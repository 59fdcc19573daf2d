// The runtime's own functions, as they were before we replaced any: everything that we do goes through these,
// so none of our calls comes back to our hooks.
#pragma once

#include "core/result.hpp"
#include "hsa/hsa_headers.hpp"

namespace kerncap::hsa {

struct Api {
  CoreApiTable core{};
  AmdExtTable ext{};
  hsa_ven_amd_loader_1_03_pfn_t loader{};
  // Another tool has put its own function in the place of the runtime's: it wants to see every queue, too.
  bool queues_of_another_tool = false;
};

[[nodiscard]] const Api& api() noexcept;

// Saves the runtime's functions. Tables grow with each ROCr: only what both sides know is copied.
core::Result<void> save_api(const HsaApiTable& table) noexcept;

// Replaces every entry of hooks.def that this runtime has.
void install_hooks(HsaApiTable& table) noexcept;

// "what: HSA_STATUS_ERROR_..." for an error that a person will read.
[[nodiscard]] core::Error hsa_error(const char* what, hsa_status_t status);

namespace hooks {
#define KERNCAP_HOOK(table, function) decltype(::function) function;
#include "hsa/hooks.def"
#undef KERNCAP_HOOK
}  // namespace hooks

}  // namespace kerncap::hsa
