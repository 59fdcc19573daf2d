// A chunk list has one spelling, and its parts must fit together.
#include <string>

#include "../check.hpp"
#include "core/chunk_list.hpp"

using namespace kerncap;
using core::ChunkList;

namespace {

const std::string k_hex(64, 'b');

std::string text(const std::string& chunk_bytes, const std::string& chunks, const std::string& size) {
  return "{\"chunk_size_bytes\":" + chunk_bytes + ",\"chunks\":[" + chunks +
         "],\"kind\":\"memory\",\"schema_version\":1,\"size_bytes\":" + size + "}\n";
}

bool accepted(const std::string& payload) {
  const auto list = ChunkList::parse(payload);
  if (!list) CHECK(list.error().code == core::ErrorCode::malformed);
  return list.ok();
}

void test_the_written_form_is_read_again() {
  for (std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 20, (std::uint64_t{5} << 20) + 1}) {
    ChunkList list{size, core::k_chunk_bytes, {}};
    list.chunks.resize((size + core::k_chunk_bytes - 1) / core::k_chunk_bytes);
    for (std::size_t i = 0; i < list.chunks.size(); i += 2) list.chunks[i] = core::digest_of({});
    const auto again = ChunkList::parse(list.payload());
    CHECK(again.ok());
    CHECK(again.value().size_bytes == size);
    CHECK(again.value().chunks == list.chunks);
    CHECK(again.value().payload() == list.payload());
  }
}

void test_nothing_else_is_accepted() {
  const std::string quoted = '"' + k_hex + '"';
  CHECK(accepted(text("10", quoted + ",null", "11")));
  CHECK(accepted(text("10", "", "0")));
  for (const std::string& payload : {
           std::string(), std::string("{}"), text("10", quoted, "11"), text("10", quoted + ",null", "10"),
           text("10", "null", "0"), text("0", "", "0"), text("010", "null", "1"), text("10", "null", "01"),
           text("10", "null", "-1"), text("10", "null", "1.0"), text("10", "null,", "1"), text("10", ",null", "1"),
           text("10", "null null", "20"), text("10", " null", "1"), text("10", "\"" + k_hex, "1"),
           text("10", "\"" + std::string(64, 'B') + "\"", "1"), text("10", "\"../../etc/passwd\"", "1"),
           text("10", "null", "18446744073709551616"), text("1", "null", "18446744073709551615"),
           text("2147483648", "null", "1"), text("10", "null", "1") + "\n", " " + text("10", "null", "1"),
           text("10", "null", "1").substr(0, 40)}) {
    CHECK(!accepted(payload));
  }
}

}  // namespace

int main() {
  test_the_written_form_is_read_again();
  test_nothing_else_is_accepted();
  return test::exit_code();
}
