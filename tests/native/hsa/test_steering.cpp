// Address space for the runtime, where the replay wants it: the thunk's way of asking is played here.
#undef _FILE_OFFSET_BITS
#include <sys/mman.h>

#include <cstdint>
#include <initializer_list>

#include "../check.hpp"
#include "hsa/driver/steering.hpp"

using kerncap::hsa::Steering;

namespace {

constexpr std::uint64_t k_page = 4096;
constexpr std::uint64_t k_huge = 2 << 20;
constexpr int k_flags = MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE;

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }
void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// As the thunk does it: ask for room to align in, with a guard page on either side; give back what is not needed.
std::uint64_t ask(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t padded = bytes + k_page + alignment;
  void* got = ::mmap(nullptr, padded, PROT_NONE, k_flags, -1, 0);
  CHECK(got != MAP_FAILED);
  const std::uint64_t base = (number(got) + k_page + alignment - 1) / alignment * alignment;
  if (base > number(got)) CHECK(::munmap(got, base - number(got)) == 0);
  const std::uint64_t end = number(got) + padded;
  if (end > base + bytes) CHECK(::munmap(pointer(base + bytes), end - base - bytes) == 0);
  return base;
}

// Room that nobody has, aligned; what is found stays free.
std::uint64_t free_range(std::uint64_t bytes, std::uint64_t alignment) {
  void* got = ::mmap(nullptr, bytes + alignment, PROT_NONE, k_flags, -1, 0);
  ::munmap(got, bytes + alignment);
  return (number(got) + alignment - 1) / alignment * alignment;
}

std::uint64_t hold(std::uint64_t base, std::uint64_t bytes) {
  return number(::mmap(pointer(base), bytes, PROT_NONE, k_flags | MAP_FIXED_NOREPLACE, -1, 0));
}

bool is_mapped(std::uint64_t address) { return ::msync(pointer(address), k_page, MS_ASYNC) == 0; }

void a_request_is_answered_with_the_wanted_address() {
  for (const std::uint64_t alignment : {k_page, k_huge}) {
    const std::uint64_t bytes = alignment + 3 * k_page;
    const std::uint64_t wanted = free_range(bytes, k_huge);
    CHECK(hold(wanted, bytes) == wanted);
    Steering steering(wanted, bytes);
    CHECK(ask(bytes, alignment) == wanted);
    CHECK(steering.answered());
    CHECK(is_mapped(wanted + bytes - k_page));
    CHECK(!is_mapped(wanted + bytes) && !is_mapped(wanted - k_page));
    ::munmap(pointer(wanted), bytes);
  }
}

char* occupy(std::uint64_t address) {
  constexpr int rights = PROT_READ | PROT_WRITE;
  auto* got = static_cast<char*>(::mmap(pointer(address), k_page, rights, k_flags | MAP_FIXED_NOREPLACE, -1, 0));
  CHECK(number(got) == address);
  *got = 'x';
  return got;
}

void memory_on_either_side_of_the_wanted_range_is_left_alone() {
  for (const std::uint64_t alignment : {k_page, 8 * k_page, k_huge}) {
    const std::uint64_t bytes = alignment + 3 * k_page;
    const std::uint64_t wanted = free_range(bytes + 2 * k_huge, k_huge) + k_huge;
    CHECK(hold(wanted, bytes) == wanted);
    const char* before = occupy(wanted - k_page);
    const char* behind = occupy(wanted + bytes);
    {
      Steering steering(wanted, bytes);
      CHECK(ask(bytes, alignment) == wanted);
    }
    CHECK(is_mapped(wanted) && is_mapped(wanted + bytes - k_page));
    CHECK(is_mapped(number(before)) && *before == 'x');
    CHECK(is_mapped(number(behind)) && *behind == 'x');
    ::munmap(pointer(wanted - k_page), bytes + 2 * k_page);
  }
}

void a_request_that_would_be_aligned_into_other_memory_is_missed() {
  const std::uint64_t bytes = 2 * k_huge;
  const std::uint64_t wanted = free_range(4 * k_huge, k_huge) + k_page;
  CHECK(hold(wanted, bytes) == wanted);
  CHECK(hold(wanted + bytes, k_page) == wanted + bytes);
  Steering steering(wanted, bytes);
  CHECK(ask(bytes, k_huge) != wanted);
  CHECK(!steering.answered());
  CHECK(is_mapped(wanted) && is_mapped(wanted + bytes));
}

void only_the_first_request_of_the_right_size_is_answered() {
  const std::uint64_t wanted = free_range(16 * k_page, k_page);
  CHECK(hold(wanted, 8 * k_page) == wanted);
  {
    Steering steering(wanted, 8 * k_page);
    CHECK(ask(4 * k_page, k_page) != wanted);
    CHECK(ask(32 * k_page, k_page) != wanted);
    CHECK(number(::mmap(nullptr, 64 * k_page, PROT_READ | PROT_WRITE, k_flags, -1, 0)) != wanted);
    CHECK(!steering.answered());
    CHECK(ask(8 * k_page, k_page) == wanted);
    CHECK(ask(8 * k_page, k_page) != wanted);
  }
  CHECK(Steering::active() == nullptr);
  CHECK(ask(8 * k_page, k_page) != wanted);
}

}  // namespace

int main() {
  a_request_is_answered_with_the_wanted_address();
  memory_on_either_side_of_the_wanted_range_is_left_alone();
  a_request_that_would_be_aligned_into_other_memory_is_missed();
  only_the_first_request_of_the_right_size_is_answered();
  return kerncap::test::exit_code();
}
