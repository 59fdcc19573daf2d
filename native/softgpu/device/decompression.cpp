#include "softgpu/device/decompression.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

namespace kerncap::softgpu {
namespace {

// Of a library that stays open; null where there is none.
template <typename Function>
[[nodiscard]] Function function_of(const char* library, const char* name) noexcept {
  void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return opened != nullptr ? reinterpret_cast<Function>(dlsym(opened, name)) : nullptr;
}

}  // namespace

Decompressed::Decompressed(Compression method, std::span<const std::byte> compressed, std::uint64_t plain_bytes) noexcept {
  using ZstdFunction = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
  using ZstdSizeFunction = std::size_t (*)(const void*, std::size_t);
  using ZlibFunction = int (*)(unsigned char*, unsigned long*, const unsigned char*, unsigned long);
  static const auto zstd = function_of<ZstdFunction>("libzstd.so.1", "ZSTD_decompress");
  static const auto zstd_frame = function_of<ZstdSizeFunction>("libzstd.so.1", "ZSTD_findFrameCompressedSize");
  static const auto zlib = function_of<ZlibFunction>("libz.so.1", "uncompress");
  m_is_impossible = method == Compression::zlib ? zlib == nullptr : zstd == nullptr || zstd_frame == nullptr;
  if (m_is_impossible || plain_bytes == 0) return;
  // Nothing is taken before it is written: a size that was damaged costs address space only.
  void* memory = mmap(nullptr, plain_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  m_memory = static_cast<std::byte*>(memory);
  m_size_bytes = plain_bytes;
  if (method == Compression::zlib) {
    unsigned long written = plain_bytes;
    const auto* from = reinterpret_cast<const unsigned char*>(compressed.data());
    m_is_whole = zlib(static_cast<unsigned char*>(memory), &written, from, compressed.size()) == 0 && written == plain_bytes;
  } else {
    const std::size_t frame = zstd_frame(compressed.data(), compressed.size());  // an error is a huge number
    m_is_whole = frame <= compressed.size() && zstd(memory, plain_bytes, compressed.data(), frame) == plain_bytes;
  }
}

Decompressed::~Decompressed() {
  if (m_memory != nullptr) munmap(m_memory, m_size_bytes);
}

}  // namespace kerncap::softgpu
