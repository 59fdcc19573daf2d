// The opcode rows of each target, generated from tables/ at build time.
#pragma once

#include <span>

#include "softgpu/isa/opcode.hpp"

namespace kerncap::softgpu {

extern const std::span<const Opcode> k_gfx90a_opcodes;
extern const std::span<const Opcode> k_gfx942_opcodes;

}  // namespace kerncap::softgpu
