// SHA-256 of a payload: the name of an object. Computed by libcrypto, which uses the processor's instructions.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace kerncap::core {

struct Digest {
  std::array<std::byte, 32> bytes{};

  [[nodiscard]] std::string hex() const;
  [[nodiscard]] static std::optional<Digest> from_hex(std::string_view text) noexcept;
  auto operator<=>(const Digest&) const = default;
};

struct DigestHash {
  // A digest is uniformly distributed: any eight of its bytes do.
  [[nodiscard]] std::size_t operator()(const Digest& digest) const noexcept;
};

[[nodiscard]] Digest digest_of(std::span<const std::byte> payload);

// A digest of bytes that come in pieces.
class Hasher {
 public:
  Hasher();
  void update(std::span<const std::byte> piece);
  [[nodiscard]] Digest finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> m_context;
};

}  // namespace kerncap::core
