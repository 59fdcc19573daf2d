// Why a GPU may not access an address, in words for people: its page table says only that there is nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "softgpu/device/gpu.hpp"

namespace kerncap::softgpu {

// Whose memory is there, if anybody's, when `gpu` has no page: static text, empty where nothing is mapped at all. Allocates
// nothing, but opens Views of the others' page tables: the caller has none open.
[[nodiscard]] std::string_view whose_memory(const Gpu& gpu, std::span<const std::unique_ptr<Gpu>> all, std::uint64_t address) noexcept;

}  // namespace kerncap::softgpu
