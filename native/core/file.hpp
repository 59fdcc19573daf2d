// The few file operations that the store needs, with errors that name the path and the cause.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "core/unique_fd.hpp"

namespace kerncap::core {

// Turns errno into an Error: a full disk or missing rights are told apart from the rest.
[[nodiscard]] Error errno_error(const std::string& what, int number);

[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> bytes);

// Writes all pieces in order; changes the array.
[[nodiscard]] Result<void> write_pieces(int fd, std::span<iovec> pieces);

// Copies `bytes` bytes of `from`, starting at `offset`, to the position of `to`.
[[nodiscard]] Result<void> copy_range(int from, std::uint64_t offset, std::uint64_t bytes, int to);

[[nodiscard]] Result<UniqueFd> open_at(int folder, const std::string& name, int flags, unsigned mode = 0);
[[nodiscard]] Result<void> make_folder(int folder, const std::string& name);
[[nodiscard]] Result<void> sync_folder(int fd, const std::string& name);

// Reads a whole file into the front of `buffer`, which grows as needed and is kept for the next read. Returns the
// part that was read. A file larger than `most_bytes` is an error: nothing is allocated for it.
[[nodiscard]] Result<std::span<const std::byte>> read_file(int folder, const std::string& name,
                                                           std::vector<std::byte>& buffer, std::size_t most_bytes);

}  // namespace kerncap::core
