// What a program hands to the driver as code: which form it has, and how long it is. The driver has taken it by then,
// so lengths are believed as the driver believes them; PTX has none and ends with a zero byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kerncap::cuda {

struct Image {
  enum class Form { other, ptx, fatbin, cubin };
  Form form = Form::other;
  std::span<const std::byte> bytes;
};

// `most_bytes`: what is longer is of form `other`.
[[nodiscard]] Image look_at(const void* image, std::size_t most_bytes) noexcept;

// Whether it is PTX, or a fatbin out of which the driver compiles PTX for a GPU of this compute capability (90): no
// cubin in it runs there.
[[nodiscard]] bool is_compiled(const Image& image, unsigned capability) noexcept;

}  // namespace kerncap::cuda
