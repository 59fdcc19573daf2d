// What a cubin says about itself: the names that it defines. The bytes come from the program: every offset is
// checked, and what does not fit is taken for absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kerncap::cuda {

struct CubinVariable {
  std::string_view name;
  std::uint64_t bytes = 0;
  bool is_const = false;
};

// The names are views of the cubin's own bytes.
struct CubinSymbols {
  std::vector<std::string_view> kernels;
  std::vector<CubinVariable> variables;       // __device__, __managed__ and __constant__
  bool uses_heap = false;                     // a kernel of it calls malloc
};

[[nodiscard]] CubinSymbols read_cubin(std::span<const std::byte> file) noexcept;

}  // namespace kerncap::cuda
