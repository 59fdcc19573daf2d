// A function of a library like ours leaves its caller's address to the real dlsym, also in builds without optimisation:
// RTLD_NEXT means "after whoever called".
#include <cstdint>

#include "../check.hpp"
#include "core/real_dlsym.hpp"

// The linker names both ends of a section whose name is an identifier.
extern "C" const char __start_kc_of_caller[], __stop_kc_of_caller[];

namespace {

[[gnu::noinline]] void* who_called(void*, const char*) noexcept { return __builtin_return_address(0); }

kerncap::core::DlsymFunction volatile g_real = who_called;

[[gnu::noinline]] KERNCAP_JUMPS_AT_END void* stands_in_front(void* handle, const char* name) noexcept {
  const auto real = g_real;
  KERNCAP_TAIL_CALL return real(handle, name);
}

[[gnu::noinline, gnu::section("kc_of_caller")]] bool is_seen_as_the_caller() {
  const char* volatile seen = static_cast<const char*>(stands_in_front(nullptr, ""));
  return seen > __start_kc_of_caller && seen < __stop_kc_of_caller;
}

}  // namespace

int main() {
  CHECK(is_seen_as_the_caller());
  return kerncap::test::exit_code();
}
