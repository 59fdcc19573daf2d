// Kernels that come to the device in other ways than <<<>>> on the legacy stream: on the thread's own default stream,
// out of PTX that the driver compiles or links, out of a library, with their parameters in one buffer.
// nvcc: --default-stream per-thread
#include <cooperative_groups.h>
#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include "check.cuh"

__global__ void on_own_stream(int* data) { *data += 1; }
__global__ void together(int* data) {
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 1) *data += 2;
}
__global__ void extended(int* data) { *data += 3; }

// NAME(data, what): *data += what
static std::string ptx_of(const std::string& name) {
  return ".version 7.0\n.target sm_70\n.address_size 64\n"
         ".visible .entry " + name + "(.param .u64 data, .param .u32 what) {\n"
         "  .reg .u64 %p<3>;\n  .reg .u32 %r<4>;\n"
         "  ld.param.u64 %p1, [data];\n  cvta.to.global.u64 %p2, %p1;\n  ld.param.u32 %r1, [what];\n"
         "  ld.global.u32 %r2, [%p2];\n  add.u32 %r3, %r2, %r1;\n  st.global.u32 [%p2], %r3;\n  ret;\n}\n";
}

#define DRIVER(name) reinterpret_cast<decltype(&name)>(::dlsym(driver, #name))
#define DRIVER_CHECK(name, ...)                                                            \
  do {                                                                                     \
    const auto call_ = DRIVER(name);                                                       \
    const int status_ = call_ == nullptr ? -1 : static_cast<int>(call_(__VA_ARGS__));      \
    if (status_ != 0) {                                                                    \
      std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #name, status_);         \
      std::exit(1);                                                                        \
    }                                                                                      \
  } while (0)

int main() {
  int* data = nullptr;
  // Of the thread's own stream, too.
  CHECK(cudaMallocAsync(&data, 4096, nullptr));
  CHECK(cudaMemsetAsync(data, 0, 4096, nullptr));
  on_own_stream<<<1, 1>>>(data);
  void* arguments[] = {&data};
  CHECK(cudaLaunchCooperativeKernel(together, dim3(2), dim3(32), arguments, 0, nullptr));
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = configuration.blockDim = dim3(1);
  CHECK(cudaLaunchKernelEx(&configuration, extended, data));
  CHECK(cudaDeviceSynchronize());

  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  unsigned what = 4;
  void* parameters[] = {&data, &what};
  CUmodule module;
  CUfunction function;
  DRIVER_CHECK(cuModuleLoadData, &module, ptx_of("compiled").c_str());
  DRIVER_CHECK(cuModuleGetFunction, &function, module, "compiled");
  DRIVER_CHECK(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);

  CUlinkState state;
  const std::string linked = ptx_of("linked");
  void* image = nullptr;
  std::size_t bytes = 0;
  DRIVER_CHECK(cuLinkCreate_v2, 0, nullptr, nullptr, &state);
  DRIVER_CHECK(cuLinkAddData_v2, state, CU_JIT_INPUT_PTX, const_cast<char*>(linked.c_str()), linked.size() + 1,
               "linked", 0, nullptr, nullptr);
  DRIVER_CHECK(cuLinkComplete, state, &image, &bytes);
  DRIVER_CHECK(cuModuleLoadData, &module, image);
  DRIVER_CHECK(cuLinkDestroy, state);
  DRIVER_CHECK(cuModuleGetFunction, &function, module, "linked");
  what = 5;
  DRIVER_CHECK(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);

  CUlibrary library;
  CUkernel kernel;
  DRIVER_CHECK(cuLibraryLoadData, &library, ptx_of("of_library").c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  DRIVER_CHECK(cuLibraryGetKernel, &kernel, library, "of_library");
  what = 6;
  DRIVER_CHECK(cuLaunchKernel, reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);

  DRIVER_CHECK(cuModuleLoadData, &module, ptx_of("in_a_buffer").c_str());
  DRIVER_CHECK(cuModuleGetFunction, &function, module, "in_a_buffer");
  struct {
    int* data;
    unsigned what;
  } buffer{data, 7};
  std::size_t size = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  DRIVER_CHECK(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
  CHECK(cudaDeviceSynchronize());
  int sum = 0;
  CHECK(cudaMemcpy(&sum, data, sizeof sum, cudaMemcpyDefault));
  EXPECT(sum == 1 + 2 + 3 + 4 + 5 + 6 + 7);
  std::printf("ok\n");
  return 0;
}
