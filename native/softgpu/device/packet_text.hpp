// What a packet of an AQL queue asks for, in words: for people who trace a program.
#pragma once

#include <string>

#include "softgpu/device/aql.hpp"
#include "softgpu/memory/address_space.hpp"

namespace kerncap::softgpu {

// Kernels by their names, as in faults: found in `space`.
[[nodiscard]] std::string packet_text(const AddressSpace& space, const aql::Packet& packet);

}  // namespace kerncap::softgpu
