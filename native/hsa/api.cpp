// Saves and patches the runtime's dispatch tables.
#include "hsa/api.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

namespace kerncap::hsa {
namespace {

Api g_api;  // trivially destructible: stays usable while static destructors run

template <typename Table>
void save(Table& to, const Table* from) noexcept {
  if (from == nullptr) return;
  std::memcpy(static_cast<void*>(&to), from, std::min<std::size_t>(from->version.minor_id, sizeof to));
}

// Whether two addresses are of one library; the runtime's own tables and functions are.
bool same_library(const void* one, const void* other) noexcept {
  Dl_info first{};
  Dl_info second{};
  return ::dladdr(one, &first) != 0 && ::dladdr(other, &second) != 0 && first.dli_fbase == second.dli_fbase;
}

template <typename Table, typename Function>
void replace(Table* table, std::size_t offset, Function*& entry, Function* ours) noexcept {
  const bool known = table != nullptr && offset + sizeof(Function*) <= table->version.minor_id;
  if (known && entry != nullptr) entry = ours;
}

}  // namespace

const Api& api() noexcept { return g_api; }

core::Result<void> save_api(const HsaApiTable& table) noexcept {
  save(g_api.core, table.core_);
  save(g_api.ext, table.amd_ext_);
  if (g_api.core.hsa_system_get_major_extension_table_fn == nullptr ||
      g_api.ext.hsa_amd_queue_intercept_create_fn == nullptr) {
    return core::Error{core::ErrorCode::unsupported, "this ROCr has no intercept queues"};
  }
  g_api.queues_of_another_tool =
      !same_library(reinterpret_cast<const void*>(g_api.core.hsa_queue_create_fn),
                    reinterpret_cast<const void*>(g_api.ext.hsa_amd_queue_intercept_create_fn));
  const hsa_status_t status = g_api.core.hsa_system_get_major_extension_table_fn(
      HSA_EXTENSION_AMD_LOADER, 1, sizeof g_api.loader, &g_api.loader);
  if (status != HSA_STATUS_SUCCESS) return hsa_error("loader extension 1.03", status);
  return {};
}

void install_hooks(HsaApiTable& table) noexcept {
#define KERNCAP_HOOK(member, function)                                                               \
  replace(table.member, offsetof(std::remove_pointer_t<decltype(table.member)>, function##_fn),      \
          table.member->function##_fn, &hooks::function);
#include "hsa/hooks.def"
#undef KERNCAP_HOOK
}

core::Error hsa_error(const char* what, hsa_status_t status) {
  const char* text = nullptr;
  if (g_api.core.hsa_status_string_fn != nullptr) g_api.core.hsa_status_string_fn(status, &text);
  std::string message = std::string(what) + ": " + (text != nullptr ? text : "unknown HSA status");
  return {core::ErrorCode::device, std::move(message) + " (" + std::to_string(status) + ")"};
}

}  // namespace kerncap::hsa
