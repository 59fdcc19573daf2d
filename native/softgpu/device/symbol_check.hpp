// Whether the symbol tables of a code object agree. HIP lists kernels and variables by one of them and lets ROCr find them by the
// other, sections by their names, and ends the program where it does not find what it has listed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kerncap::softgpu {

// Empty, or what is wrong. `file` is a code object that damage_of_code_object found whole. Tables have the names that every linker
// gives them, and what is exported has the same name, place and size in both; one that was stripped has one table only.
[[nodiscard]] std::string damage_of_symbols_for_hip(std::span<const std::byte> file);

}  // namespace kerncap::softgpu
