// The files of the kernel driver that this process is shown in place of the machine's: /dev/kfd, /dev/dri and parts of /sys. Made
// from the settings alone: who only looks at them starts no driver.
#pragma once

#include "softgpu/device/file_tree.hpp"
#include "softgpu/device/settings.hpp"

namespace kerncap::softgpu {

// What the environment asks of this process: read and, where it cannot be, reported once. Null: the program sees no GPU.
[[nodiscard]] const Settings* process_settings() noexcept;

// Whether the path, which begins with a slash, can lead to one of the files or lists one. Takes no memory: most paths of a
// program go through here.
[[nodiscard]] bool may_be_system_file(const char* path) noexcept;

// Null: the program sees no GPU.
[[nodiscard]] const FileTree* system_files() noexcept;

// The two parts of it; topology.cpp and pci_files.cpp.
void add_topology(FileTree& files, const Settings& settings);
void add_pci_devices(FileTree& files, const Settings& settings);

}  // namespace kerncap::softgpu
