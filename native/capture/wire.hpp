// Writes and reads the parts of which messages.hpp makes messages, every bound checked. Messages are made on the program's threads, whose
// stacks may be small: a short one lies in the object, a longer one on the heap.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "capture/protocol.hpp"

namespace kerncap::capture {

class Message {
 public:
  explicit Message(Up type) noexcept { u32(static_cast<std::uint32_t>(type)); }
  explicit Message(Down type) noexcept { u32(static_cast<std::uint32_t>(type)); }

  Message& u32(std::uint32_t value) noexcept { return raw(&value, sizeof value); }
  Message& u64(std::uint64_t value) noexcept { return raw(&value, sizeof value); }
  Message& u32x3(const std::array<std::uint32_t, 3>& value) noexcept { return raw(value.data(), sizeof value); }
  Message& u64x3(const std::array<std::uint64_t, 3>& value) noexcept { return raw(value.data(), sizeof value); }
  Message& bytes(std::span<const std::byte> value) noexcept {
    u32(static_cast<std::uint32_t>(value.size()));
    return raw(value.data(), value.size());
  }
  // Text that does not fit is cut, never refused: it only serves people.
  Message& text(std::string_view value) noexcept {
    const std::size_t fits = room() > 4 ? room() - 4 : 0;
    return bytes(std::as_bytes(std::span(value.data(), value.size() < fits ? value.size() : fits)));
  }
  // Overwrites four bytes, such as a count that is known only at the end.
  void patch_u32(std::size_t at, std::uint32_t value) noexcept { std::memcpy(data() + at, &value, sizeof value); }

  // False: more than a message can hold was written, or there was no memory for it.
  [[nodiscard]] bool ok() const noexcept { return !m_overflow; }
  [[nodiscard]] std::size_t size() const noexcept { return m_size; }
  [[nodiscard]] std::size_t room() const noexcept { return k_max_message_bytes - m_size; }
  [[nodiscard]] std::span<const std::byte> view() const noexcept {
    return {m_long == nullptr ? m_short.data() : m_long.get(), m_size};
  }

 private:
  Message& raw(const void* from, std::size_t count) noexcept {
    if (count > room() || (count > m_capacity - m_size && !grow(m_size + count))) {
      m_overflow = true;
    } else if (count != 0) {
      std::memcpy(data() + m_size, from, count);
      m_size += count;
    }
    return *this;
  }
  [[nodiscard]] std::byte* data() noexcept { return m_long == nullptr ? m_short.data() : m_long.get(); }
  bool grow(std::size_t least) noexcept {
    const std::size_t capacity = std::min(k_max_message_bytes, std::max(least, 2 * m_capacity));
    auto* longer = static_cast<std::byte*>(std::realloc(m_long.get(), capacity));
    if (longer == nullptr) return false;
    if (m_long == nullptr) std::memcpy(longer, m_short.data(), m_size);
    (void)m_long.release();
    m_long.reset(longer);
    m_capacity = capacity;
    return true;
  }
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  static constexpr std::size_t k_short_bytes = 512;
  std::array<std::byte, k_short_bytes> m_short;
  std::unique_ptr<std::byte[], Free> m_long;
  std::size_t m_capacity = k_short_bytes;
  std::size_t m_size = 0;
  bool m_overflow = false;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> data) noexcept : m_data(data) {}

  [[nodiscard]] std::uint32_t u32() noexcept { return number<std::uint32_t>(); }
  [[nodiscard]] std::uint64_t u64() noexcept { return number<std::uint64_t>(); }
  [[nodiscard]] std::array<std::uint32_t, 3> u32x3() noexcept { return number<std::array<std::uint32_t, 3>>(); }
  [[nodiscard]] std::array<std::uint64_t, 3> u64x3() noexcept { return number<std::array<std::uint64_t, 3>>(); }
  [[nodiscard]] std::span<const std::byte> bytes() noexcept {
    const std::size_t length = u32();
    if (length > m_data.size()) {
      m_truncated = true;
      m_data = {};
      return {};
    }
    const std::span<const std::byte> taken = m_data.first(length);
    m_data = m_data.subspan(length);
    return taken;
  }
  [[nodiscard]] std::string_view text() noexcept {
    const std::span<const std::byte> taken = bytes();
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  // Once false, everything read since the fault was zero or empty.
  [[nodiscard]] bool ok() const noexcept { return !m_truncated; }

 private:
  template <typename T>
  T number() noexcept {
    T value{};
    if (sizeof value > m_data.size()) {
      m_truncated = true;
      m_data = {};
    } else {
      std::memcpy(&value, m_data.data(), sizeof value);
      m_data = m_data.subspan(sizeof value);
    }
    return value;
  }

  std::span<const std::byte> m_data;
  bool m_truncated = false;
};

}  // namespace kerncap::capture
