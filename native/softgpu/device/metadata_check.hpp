// Whether the metadata of a code object say what HIP reads from them, which takes their word for the sizes of arguments and for
// the kernels that there are. ROCr does not look at them: code objects without any load there.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kerncap::softgpu {

// Empty, or what is wrong. `file` is a code object that damage_of_code_object found whole. What the ABI calls required must be
// there and of its kind, arguments within the kernel's segment; each kernel has a descriptor and each descriptor a kernel. Members
// that are not known are let be: compilers add some.
[[nodiscard]] std::string damage_of_metadata(std::span<const std::byte> file);

}  // namespace kerncap::softgpu
