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

// What a kernel does that is not undone by putting memory back, itself or by a function that it calls.
enum KernelEffect : unsigned {
  k_prints = 1,            // printf
  k_launches = 2,          // kernels or graphs, on the device
  k_uses_heap = 4,         // malloc or free: the device's own heap
};

struct CubinEffects {
  std::string_view kernel;
  unsigned effects = 0;
};

// The names are views of the cubin's own bytes.
struct CubinSymbols {
  std::vector<std::string_view> kernels;
  std::vector<CubinVariable> variables;       // __device__, __managed__ and __constant__
  std::vector<CubinEffects> effects;          // of the kernels that have any
  bool uses_heap = false;                     // a kernel of it calls malloc
};

[[nodiscard]] CubinSymbols read_cubin(std::span<const std::byte> file) noexcept;

// Whether code, a cubin or PTX, may take more local memory than its kernels say: it calls functions and writes to local memory. One
// that calls itself takes as much as its depth needs, and ptxas mostly says 0.
[[nodiscard]] bool has_open_stack(std::span<const std::byte> file) noexcept;
// Whether code, a cubin or PTX, names what launches kernels or graphs on the device. Without these names it cannot.
[[nodiscard]] bool may_launch(std::span<const std::byte> file) noexcept;

}  // namespace kerncap::cuda
