// Data of a code object by name, static data too: the runtime tells of exported symbols only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kerncap::hsa {

// Where it is, measured from the first loaded byte. None unless exactly one piece of data has that name and size.
// The compiler may add `.static.HASH`, `.intern.HASH` or the like to the name of a static variable, and the hash is
// another one in each build: it does not count.
[[nodiscard]] std::optional<std::uint64_t> data_symbol(std::span<const std::byte> file, std::string_view name,
                                                       std::uint64_t bytes);

// What kernels may write of it, each part from the first loaded byte and its size.
[[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> writable_data(std::span<const std::byte> file);

}  // namespace kerncap::hsa
