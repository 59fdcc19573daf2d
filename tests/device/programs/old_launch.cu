// A launch by the calls of CUDA 3: block and parameters are set one by one before it.
#include <cuda.h>
#include <dlfcn.h>

#include "check.cuh"

static const char k_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry target(.param .u64 data) {\n"
    "  .reg .u64 %p<3>;\n  .reg .u32 %r<2>;\n"
    "  ld.param.u64 %p1, [data];\n  cvta.to.global.u64 %p2, %p1;\n  mov.u32 %r1, 7;\n"
    "  st.global.u32 [%p2], %r1;\n  ret;\n}\n";

// Declared anew: the headers call them deprecated.
template <typename... Arguments>
static void call(const char* name, Arguments... arguments) {
  static void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  const auto found = reinterpret_cast<CUresult (*)(Arguments...)>(::dlsym(driver, name));
  EXPECT(found != nullptr);
  EXPECT(found(arguments...) == CUDA_SUCCESS);
}

int main() {
  unsigned* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof *data));
  CUmodule module;
  CUfunction function;
  call("cuModuleLoadData", &module, static_cast<const void*>(k_ptx));
  call("cuModuleGetFunction", &function, module, "target");
  call("cuFuncSetBlockShape", function, 1, 1, 1);
  call("cuParamSetv", function, 0, static_cast<void*>(&data), static_cast<unsigned>(sizeof data));
  call("cuParamSetSize", function, static_cast<unsigned>(sizeof data));
  call("cuLaunchGrid", function, 1, 1);
  CHECK(cudaDeviceSynchronize());
  unsigned value = 0;
  CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
  EXPECT(value == 7);
  std::printf("ok\n");
  return 0;
}
