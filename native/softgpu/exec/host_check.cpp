// Compiled for any x86-64, unlike the rest of the interpreter: it says whether that may run at all.
#include "softgpu/exec/engine.hpp"

namespace kerncap::softgpu {

const char* Engine::host_problem() noexcept {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) {
    return nullptr;
  }
  return "the software GPU needs a processor with AVX2, FMA, F16C, BMI and BMI2 (x86-64-v3)";
}

}  // namespace kerncap::softgpu
