// The files and folders under /sys and /dev by which the kernel driver presents its GPUs, as text made from the chip.
//
// Node 0 is the CPU, nodes 1.. are the GPUs. A CPU-to-GPU link tells ROCr that the whole VRAM is host-visible.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "softgpu/device/settings.hpp"

namespace kerncap::softgpu {

inline constexpr unsigned k_first_render_minor = 128;
inline constexpr std::uint32_t k_first_gpu_id = 0x4b01;  // any number but 0: the driver hashes one from the PCI slot

class Topology {
 public:
  explicit Topology(const Settings& settings);

  // Whether the path lies where we replace everything: what file() and folder() do not have, does not exist.
  [[nodiscard]] static bool covers(std::string_view path) noexcept;

  // Null unless it is one of ours.
  [[nodiscard]] const std::string* file(std::string_view path) const;
  // The names in a folder of ours; null for other folders. Everything in such a folder is a folder or a file of ours.
  [[nodiscard]] const std::vector<std::string>* folder(std::string_view path) const;

  // The device nodes. A render node is known by its minor number, 128 + GPU index.
  enum class Device : std::uint8_t { none, kfd, render };
  struct DeviceNode {
    Device device = Device::none;
    unsigned gpu_index = 0;
  };
  [[nodiscard]] DeviceNode device(std::string_view path) const;

 private:
  void add(const std::string& path, std::string text);
  void add_cpu_node();
  void add_gpu_node(unsigned index);
  void add_link(unsigned from, unsigned number, unsigned to);

  const Settings& m_settings;
  std::map<std::string, std::string, std::less<>> m_files;
  std::map<std::string, std::vector<std::string>, std::less<>> m_folders;
};

}  // namespace kerncap::softgpu
