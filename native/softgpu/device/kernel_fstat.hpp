// What the kernel says of a descriptor. fstat() is one of our hooks, which answers for descriptors of ours, and asks this library.
#pragma once

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kerncap::softgpu {

// As fstat(): 0, or -1 and errno.
[[nodiscard]] inline int kernel_fstat(int fd, struct stat& out) noexcept { return static_cast<int>(syscall(SYS_fstat, fd, &out)); }

}  // namespace kerncap::softgpu
