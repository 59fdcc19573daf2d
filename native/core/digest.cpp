// SHA-256 by libcrypto's EVP interface.
#include "core/digest.hpp"

#include <openssl/evp.h>

#include <cstdlib>
#include <cstring>

namespace kerncap::core {
namespace {

// Fails only where libcrypto has no memory or no SHA-256 at all: nothing can be done with either.
void require(int status) {
  if (status != 1) std::abort();
}

const EVP_MD* sha256() {
  // Fetched once: an implicit fetch in every digest takes a lock of the library's.
  static const EVP_MD* const s_algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (s_algorithm == nullptr) std::abort();
  return s_algorithm;
}

int nibble(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

std::string Digest::hex() const {
  static constexpr char k_digits[] = "0123456789abcdef";
  std::string text(64, '0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto value = std::to_integer<unsigned>(bytes[i]);
    text[2 * i] = k_digits[value >> 4];
    text[2 * i + 1] = k_digits[value & 15];
  }
  return text;
}

std::optional<Digest> Digest::from_hex(std::string_view text) noexcept {
  Digest digest;
  if (text.size() != 2 * digest.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    const int high = nibble(text[2 * i]);
    const int low = nibble(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest.bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return digest;
}

std::size_t DigestHash::operator()(const Digest& digest) const noexcept {
  std::size_t value;
  std::memcpy(&value, digest.bytes.data(), sizeof value);
  return value;
}

Digest digest_of(std::span<const std::byte> payload) {
  Digest digest;
  require(EVP_Digest(payload.data(), payload.size(), reinterpret_cast<unsigned char*>(digest.bytes.data()), nullptr,
                     sha256(), nullptr));
  return digest;
}

Hasher::Hasher() : m_context(EVP_MD_CTX_new()) { require(EVP_DigestInit_ex(m_context.get(), sha256(), nullptr)); }

void Hasher::update(std::span<const std::byte> piece) {
  require(EVP_DigestUpdate(m_context.get(), piece.data(), piece.size()));
}

Digest Hasher::finish() {
  Digest digest;
  require(EVP_DigestFinal_ex(m_context.get(), reinterpret_cast<unsigned char*>(digest.bytes.data()), nullptr));
  return digest;
}

void Hasher::Free::operator()(evp_md_ctx_st* context) const noexcept { EVP_MD_CTX_free(context); }

}  // namespace kerncap::core
