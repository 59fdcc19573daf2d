// libcuda and CUPTI, opened at run time: the product is built and installed where neither is.
#pragma once

#include <string>

#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

struct Driver {
#define KC_DRIVER(name) decltype(&::name) name = nullptr;
#define KC_NEWER(name) decltype(&::name) name = nullptr;
#define KC_CUPTI(name)
#include "cuda/api.def"
#undef KC_DRIVER
#undef KC_NEWER
#undef KC_CUPTI
};

struct Cupti {
#define KC_DRIVER(name)
#define KC_NEWER(name)
#define KC_CUPTI(name) decltype(&::name) name = nullptr;
#include "cuda/api.def"
#undef KC_DRIVER
#undef KC_NEWER
#undef KC_CUPTI
  std::string path;                     // where it was found
};

// Filled once by load_driver() and load_cupti(); valid until the process ends.
[[nodiscard]] const Driver& driver() noexcept;
[[nodiscard]] const Cupti& cupti() noexcept;

[[nodiscard]] core::Result<void> load_driver();
// Looks where the program has it loaded, in KERNCAP_CUPTI (paths between colons), then on the loader's path.
[[nodiscard]] core::Result<void> load_cupti();

// 0 where the driver does not tell.
[[nodiscard]] int device_attribute(CUdevice device, CUdevice_attribute which) noexcept;

// "WHAT: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
[[nodiscard]] std::string describe(const std::string& what, CUresult status);
[[nodiscard]] core::Result<void> checked(const std::string& what, CUresult status);

}  // namespace kerncap::cuda
