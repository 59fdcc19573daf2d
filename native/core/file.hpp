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

// Turns errno into an Error: a full disk, a limit on file sizes or missing rights are told apart from the rest.
[[nodiscard]] Error errno_error(const std::string& what, int number);

[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> bytes);

// Writes all pieces in order; changes the array.
[[nodiscard]] Result<void> write_pieces(int fd, std::span<iovec> pieces);

// Fills all pieces in order as far as the file reaches; changes the array. Returns how many bytes came.
[[nodiscard]] Result<std::size_t> read_pieces(int fd, std::span<iovec> pieces);

// Copies `bytes` bytes of `from`, starting at `offset`, to the position of `to`.
[[nodiscard]] Result<void> copy_range(int from, std::uint64_t offset, std::uint64_t bytes, int to);

// The store's own files are never links; a user's may be.
enum class Links { refuse, follow };
[[nodiscard]] Result<UniqueFd> open_at(int folder, const std::string& name, int flags, unsigned mode = 0,
                                       Links links = Links::refuse);

// Makes a folder of mode 0700; false if it was there.
[[nodiscard]] Result<bool> make_folder(int folder, const std::string& name);

// The names in a folder, without "." and "..".
[[nodiscard]] Result<std::vector<std::string>> list_folder(int folder);

// Removes a folder that holds files only; somebody else may be removing it as well.
[[nodiscard]] Result<void> remove_folder(int parent, const std::string& name);

// fsync: of a file its bytes, of a folder its names.
[[nodiscard]] Result<void> sync_to_disk(int fd, const std::string& name);

// Fills `buffer` as far as the file reaches; returns how many bytes came.
[[nodiscard]] Result<std::size_t> read_fully(int fd, std::span<std::byte> buffer, const std::string& name);

// Reads a whole file into the front of `buffer`, which grows as needed and is kept for the next read. Returns the
// part that was read. A file larger than `most_bytes` is an error: nothing is allocated for it.
[[nodiscard]] Result<std::span<const std::byte>> read_file(int folder, const std::string& name,
                                                           std::vector<std::byte>& buffer, std::size_t most_bytes);

}  // namespace kerncap::core
