// Which of several cubins a module handle stands for. CUPTI shows cubins without handles, and the driver tells nobody the bytes
// behind a handle: where no call has named what it loaded, contents decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

struct ModuleVariable {
  std::string name;
  std::uint64_t bytes;
  bool is_const;
};

// A cubin that may be the one.
struct ModuleCandidate {
  std::uint64_t number = 0;
  CUcontext context = nullptr;
  std::size_t content = 0;                   // a hash of its bytes
  std::vector<std::string> kernels;          // sorted
  std::vector<ModuleVariable> variables;
};

struct ModuleMatch {
  std::uint64_t number = 0;                  // 0: there is none
  bool is_certain = true;                    // false: others are as good, and are not the same
};

[[nodiscard]] bool has_all_variables(CUmodule handle, const ModuleCandidate& cubin);
// `candidates`: the latest last. Calls the driver where there is more than one.
[[nodiscard]] ModuleMatch match_module(CUmodule handle, std::vector<ModuleCandidate> candidates);

}  // namespace kerncap::cuda
