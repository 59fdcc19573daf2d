// The copy kernel, compiled for every target that the compiler at hand knew when the project was built.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace kerncap::hsa {

struct CopyKernel {
  const char* target;               // gfx90a, gfx11-generic
  const unsigned char* bytes;
  std::size_t size;
};

// The code objects worth trying for an ISA name, the exact one first, then the generic ones.
[[nodiscard]] std::vector<CopyKernel> copy_kernels_for(std::string_view isa);

}  // namespace kerncap::hsa
