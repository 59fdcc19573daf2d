// What these unit tests share: a check that says where it failed, and an exit code.
#pragma once

#include <cstdio>

namespace kerncap::test {

inline int g_failures = 0;

inline void check(bool holds, const char* text, const char* file, int line) {
  if (holds) return;
  ++g_failures;
  std::fprintf(stderr, "%s:%d: %s does not hold\n", file, line, text);
}

[[nodiscard]] inline int exit_code() { return g_failures == 0 ? 0 : 1; }

}  // namespace kerncap::test

#define CHECK(...) ::kerncap::test::check((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
