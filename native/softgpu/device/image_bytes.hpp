// The bytes of an image that a program hands to HIP: a file of known size, or an address about which nothing is known. What
// may not be read is found out without a fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace kerncap::softgpu {

class ImageBytes {
 public:
  explicit ImageBytes(std::span<const std::byte> known) noexcept : m_data(known.data()), m_end(known.size()), m_extent(Extent::known) {}
  // Memory that ends nobody knows where: each page is looked at before it is read. `is_file`: what a dynamic loader has mapped
  // of a file has no holes, only the file may end too early.
  [[nodiscard]] static ImageBytes unknown(const void* image, bool is_file) noexcept {
    return {static_cast<const std::byte*>(image), is_file ? Extent::file : Extent::memory};
  }

  // Whether [offset, offset + size) can be read.
  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size_bytes) noexcept;
  // The same for what is not going to be read here: of a mapped file only the first and the last byte are looked at, so that
  // hundreds of megabytes for other targets stay on the disk.
  [[nodiscard]] bool reaches(std::uint64_t offset, std::uint64_t size_bytes) noexcept;
  template <typename T>
  [[nodiscard]] std::optional<T> read(std::uint64_t offset) noexcept {
    if (!holds(offset, sizeof(T))) return std::nullopt;
    T value;
    std::memcpy(&value, m_data + offset, sizeof value);
    return value;
  }
  // Of a file of known size.
  [[nodiscard]] std::optional<std::uint64_t> size_bytes() const noexcept {
    return m_extent == Extent::known ? std::optional(m_end) : std::nullopt;
  }
  // The caller knows that they can be read.
  [[nodiscard]] std::span<const std::byte> bytes(std::uint64_t offset, std::uint64_t size_bytes) const noexcept {
    return {m_data + offset, size_bytes};
  }

 private:
  enum class Extent : std::uint8_t { known, memory, file };
  ImageBytes(const std::byte* data, Extent extent) noexcept : m_data(data), m_extent(extent) {}

  const std::byte* m_data;
  std::uint64_t m_end = 0;  // below it all is known to be readable
  Extent m_extent;
};

}  // namespace kerncap::softgpu
