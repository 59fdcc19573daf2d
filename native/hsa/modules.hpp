// Code objects: found when an executable is frozen, which is the last moment their bytes can be read safely.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "hsa/hsa_headers.hpp"
#include "hsa/kernels.hpp"

namespace kerncap::hsa {

class Modules {
 public:
  // Tells the collector about every code object of a frozen executable and learns which kernels are wanted.
  void add(hsa_executable_t executable) noexcept;
  // Before the runtime unloads it: its kernels and its memory are gone, and their addresses may come back.
  void remove(hsa_executable_t executable) noexcept;

 private:
  void add_one(hsa_executable_t executable, hsa_loaded_code_object_t loaded) noexcept;
  [[nodiscard]] const KernelDescriptor* keep(const std::optional<KernelDescriptor>& descriptor);

  std::mutex m_mutex;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> m_by_executable;
  std::deque<KernelDescriptor> m_descriptors;  // of wanted kernels; like those, never freed
};

}  // namespace kerncap::hsa
