// SHA-256 against published test vectors, and the hexadecimal form.
#include <string>

#include "../check.hpp"
#include "core/digest.hpp"

using namespace kerncap;

namespace {

std::string hash(std::string_view text) { return core::digest_of(std::as_bytes(std::span(text))).hex(); }

void test_published_vectors() {
  CHECK(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

void test_pieces_hash_like_the_whole() {
  const std::string text(100000, 'x');
  core::Hasher hasher;
  for (std::size_t i = 0; i < text.size(); i += 777) {
    hasher.update(std::as_bytes(std::span(std::string_view(text).substr(i, 777))));
  }
  CHECK(hasher.finish().hex() == hash(text));
}

void test_only_lower_case_hex_is_a_digest() {
  const std::string good(64, 'a');
  CHECK(core::Digest::from_hex(good).has_value());
  CHECK(core::Digest::from_hex(good)->hex() == good);
  CHECK(!core::Digest::from_hex(std::string(63, 'a')));
  CHECK(!core::Digest::from_hex(std::string(65, 'a')));
  CHECK(!core::Digest::from_hex(std::string(64, 'A')));
  CHECK(!core::Digest::from_hex(std::string(64, 'g')));
  CHECK(!core::Digest::from_hex(""));
}

}  // namespace

int main() {
  test_published_vectors();
  test_pieces_hash_like_the_whole();
  test_only_lower_case_hex_is_a_digest();
  return test::exit_code();
}
