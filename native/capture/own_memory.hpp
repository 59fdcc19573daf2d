// This process's memory, read where a load might fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kerncap::capture {

// False where part of it is not mapped, or may not be read. Another thread may unmap it meanwhile.
[[nodiscard]] bool read_own_memory(std::uint64_t address, std::span<std::byte> into) noexcept;

}  // namespace kerncap::capture
