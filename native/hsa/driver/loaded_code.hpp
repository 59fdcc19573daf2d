// A code object that ROCr has loaded for a replay.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hsa/driver/code_symbols.hpp"
#include "hsa/driver/hip_launcher.hpp"
#include "hsa/driver/readable_code.hpp"
#include "hsa/driver/runtime.hpp"
#include "replay/driver.hpp"

namespace kerncap::hsa {

struct LoadedCode final : replay::Code {
  LoadedCode(const Runtime& from, HipLauncher* launcher) : runtime(from), hip(launcher) {}
  ~LoadedCode() override {
    readable.reset();
    if (hip != nullptr) hip->unload(hip_module);
    if (executable.handle != 0) runtime.hsa_executable_destroy(executable);
    if (reader.handle != 0) runtime.hsa_code_object_reader_destroy(reader);
  }

  [[nodiscard]] std::optional<std::uint64_t> variable(const std::string& name, std::uint64_t bytes) const override {
    const auto offset = data_symbol(file, name, bytes);
    return offset ? std::optional(load_address + *offset) : std::nullopt;
  }
  [[nodiscard]] std::vector<replay::AddressRange> own_data() const override {
    std::vector<replay::AddressRange> parts;
    for (const auto& [offset, bytes] : writable_data(file)) parts.push_back({load_address + offset, bytes});
    return parts;
  }

  const Runtime& runtime;
  HipLauncher* hip;                             // null: loaded through ROCr, with the two handles below
  HipLauncher::Module hip_module;
  std::vector<std::byte> file;                  // ROCr keeps reading it
  hsa_code_object_reader_t reader{};
  hsa_executable_t executable{};
  ReadableCode::Range readable;                 // null: it is read through the device
  std::uint64_t kernel_object = 0;
  std::uint32_t static_lds_bytes = 0;
  std::uint32_t private_bytes = 0;
  std::uint32_t kernarg_bytes = 0;
  // Of the last launch; zeros before it.
  std::uint64_t last_grid[3] = {};              // work-items
  std::uint32_t last_block[3] = {};
};

// "gfx90a" of "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-".
[[nodiscard]] std::string architecture_of(const std::string& isa);

}  // namespace kerncap::hsa
