// Whether a code object is whole. ROCr's loader believes what the file says about itself and reads beyond the end of one that
// was cut off or damaged; with the software GPU in front, such a file is refused before ROCr sees it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kerncap::softgpu {

// An ELF file for AMD GPUs, by its header.
[[nodiscard]] bool is_amdgpu_elf(std::span<const std::byte> file) noexcept;

// Empty, or what is wrong. Looks at ELF files for AMD GPUs only: whatever is none, ROCr refuses by itself. Checked are
// headers, segments, sections, names, symbols and notes: that each lies within the file and refers to what is there.
[[nodiscard]] std::string damage_of_code_object(std::span<const std::byte> file);

}  // namespace kerncap::softgpu
