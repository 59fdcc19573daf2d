// A process that may have no more memory: what we make is made all the same, and it is known that little is left.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "../check.hpp"
#include "cuda/spare_memory.hpp"

using kerncap::cuda::spare_memory_is_used;

int main() {
  std::vector<std::unique_ptr<std::string>> before;
  before.push_back(std::make_unique<std::string>(1000, 'a'));
  CHECK(!spare_memory_is_used());

  const rlimit none{0, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &none) == 0);
  for (std::size_t bytes = 1 << 20; bytes >= 16; bytes /= 2) {   // what malloc still has
    void* volatile taken = nullptr;                              // or the compiler leaves it all out
    do taken = std::malloc(bytes);
    while (taken != nullptr);
  }
  CHECK(!spare_memory_is_used());
  for (int i = 0; i < 100; ++i) before.push_back(std::make_unique<std::string>(1000, 'b'));
  CHECK(spare_memory_is_used());
  CHECK(*before.front() == std::string(1000, 'a'));
  CHECK(*before.back() == std::string(1000, 'b'));
  before.clear();                                                // both kinds are given back to where they came from

  bool thrown = false;
  try {
    for (int i = 0; i < 100; ++i) before.push_back(std::make_unique<std::string>(1 << 20, 'c'));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
  return kerncap::test::exit_code();
}
