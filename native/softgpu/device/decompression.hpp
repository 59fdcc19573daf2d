// Decompresses offload bundles with the libraries that HIP's compiler library uses. They are opened when one is met: no program
// gets another library just because the software GPU is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kerncap::softgpu {

enum class Compression : std::uint8_t { zlib, zstd };

class Decompressed {
 public:
  // plain_bytes: how many there must be, exactly. Bytes after the end of the compressed data are no error.
  Decompressed(Compression method, std::span<const std::byte> compressed, std::uint64_t plain_bytes) noexcept;
  ~Decompressed();
  Decompressed(const Decompressed&) = delete;
  Decompressed& operator=(const Decompressed&) = delete;

  // Empty where the data are damaged or of another size. Lives as long as this.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {m_memory, m_is_whole ? m_size_bytes : 0}; }
  // This machine lacks the library: nothing is known.
  [[nodiscard]] bool is_impossible() const noexcept { return m_is_impossible; }

 private:
  std::byte* m_memory = nullptr;
  std::uint64_t m_size_bytes = 0;
  bool m_is_whole = false, m_is_impossible = false;
};

}  // namespace kerncap::softgpu
