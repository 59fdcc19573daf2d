// Code that is read in place: within one range, and only while its code is loaded.
#include "../check.hpp"
#include "hsa/driver/readable_code.hpp"

using kerncap::hsa::ReadableCode;

namespace {

constexpr std::uint64_t k_at = 0x10000;

bool is_at(const ReadableCode& code, std::uint64_t address, std::uint64_t bytes) {
  return code.find(address, bytes) == reinterpret_cast<const std::byte*>(address);
}

void what_lies_in_one_range_is_found() {
  ReadableCode code;
  const ReadableCode::Range first = code.add({k_at, 0x1000});
  const ReadableCode::Range next = code.add({k_at + 0x1000, 0x1000});
  CHECK(is_at(code, k_at, 0x1000));
  CHECK(is_at(code, k_at + 0x1ff8, 8));
  CHECK(code.find(k_at - 1, 8) == nullptr);
  CHECK(code.find(k_at + 0xffc, 8) == nullptr);  // in two
  CHECK(code.find(k_at + 0x1ffc, 8) == nullptr);
  CHECK(code.find(~std::uint64_t{3}, 8) == nullptr);
  CHECK(code.find(k_at + 8, ~std::uint64_t{0}) == nullptr);
}

void code_that_is_unloaded_is_read_no_more() {
  ReadableCode code;
  ReadableCode::Range unloaded = code.add({k_at, 0x1000});
  const ReadableCode::Range stays = code.add({k_at + 0x1000, 0x1000});
  unloaded.reset();
  CHECK(code.find(k_at, 8) == nullptr);
  CHECK(is_at(code, k_at + 0x1000, 8));
  unloaded = code.add({k_at + 0x100, 0x10});     // something shorter is loaded there
  CHECK(is_at(code, k_at + 0x100, 0x10));
  CHECK(code.find(k_at, 8) == nullptr);
}

}  // namespace

int main() {
  what_lies_in_one_range_is_found();
  code_that_is_unloaded_is_read_no_more();
  return kerncap::test::exit_code();
}
