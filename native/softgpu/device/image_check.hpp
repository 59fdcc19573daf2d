// Whether an image that a program hands to HIP is whole: a code object, or a bundle of them, plain or compressed. HIP
// believes what an image says about itself, and has read beyond its end before ROCr is asked for anything.
//
//   plain bundle   "__CLANG_OFFLOAD_BUNDLE__" count:u64 { offset:u64 size:u64 name_size:u64 name:name_size bytes } * count …
//   compressed     "CCOB" version:u16 method:u16 sizes:{ version 1: plain:u32; 2: file:u32 plain:u32; 3: file:u64 plain:u64 } hash:u64
//                  then a plain bundle, compressed by zlib (method 0) or zstd (1)
#pragma once

#include <string>

#include "softgpu/device/image_bytes.hpp"
#include "softgpu/isa/target.hpp"

namespace kerncap::softgpu {

struct ImageVerdict {
  std::string damage{};        // empty: it is whole
  bool is_for_target = true;   // a bundle may hold code for other GPUs only
  std::string gpu_entries{};   // their names, when it is so
};

// Of a bundle, all entries must be there, and those that may run on the target must be whole. An image of no known kind is
// damaged, too: HIP takes it for a code object.
[[nodiscard]] ImageVerdict judge_image(ImageBytes image, Target target);

}  // namespace kerncap::softgpu
