// What a replay and the software GPU in its process agree on, so that the replay hears of a kernel's writes before they happen.
// The replay finds the software GPU's function by its name: nothing is linked.
#pragma once

#include <cstdint>

namespace kerncap::core {

struct WriteWatch {
  static constexpr std::uint64_t k_block_bytes = std::uint64_t{64} << 10;
  static constexpr const char* k_function = "kerncap_softgpu_watch_writes";
  // Takes null for nobody. False: the process has no software GPU.
  using Function = bool (*)(const WriteWatch* watch);

  // Before any byte of [begin, end) is written by a wave: at most a block, and each block at least once after each call
  // of the function. Several threads call this at once. It must not wait for the GPU.
  void (*before_write)(void* context, std::uint64_t begin, std::uint64_t end) = nullptr;
  void* context = nullptr;
};

}  // namespace kerncap::core
