// Why the driver refuses a launch: it says no more than that a value is invalid, or that resources are missing.
#include "cuda/driver/launch_limits.hpp"

namespace kerncap::cuda {
namespace {

int of_function(CUfunction function, CUfunction_attribute which) noexcept {
  int value = 0;
  return driver().cuFuncGetAttribute(&value, which, function) == CUDA_SUCCESS ? value : 0;
}

}  // namespace

std::string why_refused(CUdevice device, CUfunction function, const replay::Launch& launch) {
  const std::uint64_t threads = std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  const int most_threads = of_function(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (most_threads > 0 && threads > static_cast<std::uint64_t>(most_threads)) {
    return "; the kernel allows " + std::to_string(most_threads) + " threads a block (its __launch_bounds__, or the " +
           std::to_string(of_function(function, CU_FUNC_ATTRIBUTE_NUM_REGS)) + " registers of a thread), and this launch has " +
           std::to_string(threads);
  }
  const int most_shared = device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  const int own_shared = of_function(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  if (most_shared > 0 && static_cast<std::uint64_t>(own_shared) + launch.dynamic_lds_bytes > static_cast<std::uint64_t>(most_shared)) {
    return "; the kernel has " + std::to_string(own_shared) + " bytes of shared memory and this launch adds " +
           std::to_string(launch.dynamic_lds_bytes) + ", where a block may have " + std::to_string(most_shared);
  }
  return "";
}

}  // namespace kerncap::cuda
