// Variants that run in the place of the program's kernels: each is loaded in the context of the module that has the kernel,
// at the kernel's first launch.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capture/mapped_files.hpp"
#include "capture/replacement.hpp"
#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"
#include "cuda/function_table.hpp"
#include "cuda/launch.hpp"

namespace kerncap::cuda {

// A variant's kernel, beside one module of the program's. Never freed: a thread may be looking at it.
struct Variant {
  struct Copy {
    CUdeviceptr to;                       // the variant's
    CUdeviceptr from;
    std::size_t bytes;
  };
  const capture::Replacement* how = nullptr;
  std::uint32_t rule = k_no_rule;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUfunction captured = nullptr;          // the program's, which it stands for
  const void* launched = nullptr;         // what the program's launches name: the same, or a CUkernel
  std::uint32_t max_threads = 0;          // of a block: also as its registers allow
  std::uint32_t static_shared = 0;        // bytes
  std::uint32_t most_shared = 0;          // bytes that the device has for a block
  std::uint32_t cluster[3] = {};          // that its compiler was asked for; zeros: none
  std::vector<CUdeviceptr> variables;     // the program's, that its code uses
  std::vector<Copy> constants;            // made before each launch

  std::atomic<std::uint32_t> settings{1};           // how often the program has set something of the captured kernel, from 1
  std::atomic<std::uint32_t> carried{0};            // of these, what holds for the variant now
  std::atomic<std::uint32_t> most_dynamic{0};       // bytes of shared memory that a launch may ask for
  std::atomic<bool> is_told{false};                 // why it does not run
};

// How a variant is launched in the place of a launch of the program's.
struct VariantLaunch {
  std::uint32_t grid_blocks[3];
  std::uint32_t block[3];
  std::uint32_t dynamic_shared_bytes;
};

[[nodiscard]] capture::Shape shape_of(const LaunchCall& launch) noexcept;
// None: the variant is not for this launch, or the device cannot run it so.
[[nodiscard]] std::optional<VariantLaunch> fit(const Variant& variant, const LaunchCall& asked) noexcept;
// Before the variant runs on this stream: constants that the program sets are set in the variant, too.
[[nodiscard]] CUresult copy_constants(const Variant& variant, CUstream stream) noexcept;

class Replacements {
 public:
  // The program has loaded a module that has a selected kernel: whether that is replaced. Tells the collector. Makes no
  // driver call.
  [[nodiscard]] bool takes(std::uint64_t module, std::uint32_t rule, std::span<const std::byte> cubin) noexcept;
  // What stands for a kernel of such a module, which is about to be launched. Null: the captured kernel runs.
  [[nodiscard]] Variant* of(const Kernel& kernel) noexcept;
  // Tells the collector why a variant does not run.
  void fail(std::uint32_t rule, std::uint64_t module, const std::string& reason) noexcept;

  // Its variants stay loaded, for the next module like it: work of the program's may go on that is not that module's.
  void module_gone(std::uint64_t module) noexcept;
  // A context goes, with all that is loaded in it.
  void forget(CUcontext context) noexcept;

  // The program has set something of a function, or of a CUkernel.
  void setting_changed(const void* function, bool is_of_library) noexcept;
  void cache_preferred(const void* function, bool is_of_library, CUfunc_cache config) noexcept;

 private:
  // A kernel of which it is not known whether it is this module's: others of the module's may be known.
  void doubt(const Kernel& kernel) noexcept;
  [[nodiscard]] core::Result<Variant*> load(const Kernel& kernel);
  [[nodiscard]] core::Result<void> load_code(const Kernel& kernel, Variant& variant);
  [[nodiscard]] Variant* take_idle(const Kernel& kernel, const std::vector<CUdeviceptr>& variables) noexcept;
  // The program's settings, once a launch may use the variant: whoever else launches it meanwhile waits.
  void carry_settings(Variant& variant) noexcept;
  void carry_each(Variant& variant) noexcept;

  capture::MappedFiles m_files;
  std::mutex m_loading;                   // held while the driver is called: never by what the driver calls
  std::mutex m_mutex;                     // never while the driver is called
  std::map<std::pair<std::uint64_t, std::uint32_t>, Variant*> m_variants;   // by module and rule; null: it could not be loaded
  std::set<std::pair<std::uint64_t, std::uint32_t>> m_doubted;              // likewise, once that was told
  std::vector<std::unique_ptr<Variant>> m_all;
  std::vector<Variant*> m_idle;           // whose modules are gone
  std::map<const void*, CUfunc_cache> m_caches;
};

}  // namespace kerncap::cuda
