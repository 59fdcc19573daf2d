// Kernels of our own, native/hsa/kernels/*.cl, compiled for every target that the compiler at hand knew when the project
// was built.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace kerncap::hsa {

struct EmbeddedKernel {
  const char* file;                 // copy, grid_barrier
  const char* target;               // gfx90a, gfx11-generic
  const unsigned char* bytes;
  std::size_t size;
};

// The code objects of that file worth trying for an ISA name, the exact one first, then the generic ones.
[[nodiscard]] std::vector<EmbeddedKernel> embedded_kernels(std::string_view file, std::string_view isa);

}  // namespace kerncap::hsa
