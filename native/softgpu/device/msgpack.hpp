// Reads MessagePack, the form of a code object's metadata, without trusting it: nothing beyond the end, no deep nesting. A failed
// read makes all that follow fail. https://github.com/msgpack/msgpack/blob/master/spec.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kerncap::softgpu {

class MsgpackReader {
 public:
  explicit MsgpackReader(std::span<const std::byte> bytes) noexcept : m_bytes(bytes) {}

  // Each takes one value of its kind; nothing if there is another one.
  [[nodiscard]] std::optional<std::uint64_t> whole_number() noexcept;  // not negative
  [[nodiscard]] std::optional<std::string_view> string() noexcept;
  [[nodiscard]] std::optional<std::uint32_t> array() noexcept;  // count: that many values follow
  [[nodiscard]] std::optional<std::uint32_t> map() noexcept;    // count: that many pairs of values follow
  // Takes one value with all that is in it.
  [[nodiscard]] bool skip(unsigned depth = 0) noexcept;

 private:
  [[nodiscard]] std::optional<std::uint8_t> first() const noexcept;
  // A first byte and the big-endian number after it.
  [[nodiscard]] std::optional<std::uint64_t> number_of(std::uint8_t first, unsigned size_bytes) noexcept;
  [[nodiscard]] std::optional<std::uint32_t> count_of(std::uint8_t fix, std::uint8_t fix_mask, std::uint8_t wide) noexcept;
  [[nodiscard]] bool drop(std::uint64_t size_bytes) noexcept;

  std::span<const std::byte> m_bytes;
};

}  // namespace kerncap::softgpu
