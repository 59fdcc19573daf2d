// Variants that run in the place of the program's kernels: loaded beside the code object that has the kernel, and put
// into its dispatches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "capture/mapped_files.hpp"
#include "capture/replacement.hpp"
#include "core/result.hpp"
#include "hsa/hsa_headers.hpp"
#include "hsa/packets.hpp"

namespace kerncap::hsa {

struct Kernel;

// A variant's kernel on one device, for one loaded code object of the program.
struct Variant {
  const capture::Replacement* how = nullptr;
  std::uint64_t kernel_object = 0;
  std::uint32_t group_bytes = 0;            // fixed at compile time, of a work-group
  std::uint32_t private_bytes = 0;          // of a work-item
  std::uint32_t captured_group_bytes = 0;   // of the kernel that it stands for
  std::uint32_t most_group_bytes = 0;       // that the device has for a work-group
};

class Replacements {
 public:
  // Once the program has loaded a module that has a selected kernel. Tells the collector what became of it. Null: the
  // captured kernel runs. `delta`: the module's loaded addresses less those in its file.
  [[nodiscard]] const Variant* load(std::uint64_t module, std::span<const std::byte> file, std::int64_t delta,
                                    hsa_agent_t agent, hsa_executable_symbol_t kernel, std::uint32_t rule) noexcept;
  // The program unloads it: none of its dispatches is under way.
  void remove_module(std::uint64_t module) noexcept;
  // From a queue's callback. False: the dispatch stays as it is.
  [[nodiscard]] bool rewrite(const Kernel& kernel, Packet& packet) noexcept;

 private:
  struct Loaded {
    std::vector<std::byte> code;
    hsa_code_object_reader_t reader{};
    hsa_executable_t executable{};
  };
  core::Result<std::unique_ptr<Variant>> load_on(hsa_agent_t agent, const capture::Replacement& how,
                                                 std::int64_t delta,
                                                 std::uint32_t kernarg_bytes, Loaded& loaded);

  std::mutex m_mutex;
  capture::MappedFiles m_files;
  std::multimap<std::uint64_t, Loaded> m_loaded;                     // by the program's module
  std::vector<std::unique_ptr<const Variant>> m_variants;            // readers may still look at them: never freed
};

}  // namespace kerncap::hsa
