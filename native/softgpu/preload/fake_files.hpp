// What the hooks for files share: which node of ours a path or a descriptor means, and what is said of it.
//
// A descriptor of a folder or a text is a memory file whose name holds the path, so that it is known again in any process that
// inherits it; one of a device is a handle of the driver's memory file. errno is left alone unless a function says that it sets it.
#pragma once

#include <sys/stat.h>

#include <string>

#include "softgpu/device/file_tree.hpp"

namespace kerncap::softgpu {

// How a hook treats folders that both have, as /dev: as the machine's own unless the machine has none, or as ours, to list both.
enum class SharedFolder : unsigned char { machines, ours };

// folder: what a relative path begins at, as for openat(). Neither a node nor an error: pass the call on.
[[nodiscard]] FileTree::Found find_file(int folder, const char* path, bool follow,
                                        SharedFolder shared = SharedFolder::machines) noexcept;

// Null: it is not ours.
[[nodiscard]] const FileTree::Node* node_of(int fd) noexcept;
// The absolute path that a descriptor was opened by, of the machine's or ours; empty if there is none.
[[nodiscard]] std::string path_of(int fd) noexcept;

void describe(const FileTree::Node& node, struct stat& out) noexcept;

// As open() answers: a descriptor, or -1 and errno.
[[nodiscard]] int open_node(const FileTree::Node& node, int flags) noexcept;
// Where the find has failed: sets errno.
[[nodiscard]] int fail(int error) noexcept;

}  // namespace kerncap::softgpu
