// Kernels of one name in two libraries, of which both are loaded, by a question about each, before either kernel is launched.
#include <string>

#include "driver_calls.cuh"

// twin(data): *data += what
static std::string ptx_of(const std::string& variable, int what) {
  return ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .u32 " + variable + ";\n"
         ".visible .entry twin(.param .u64 data) {\n"
         "  .reg .u64 %p<3>;\n  .reg .u32 %r<3>;\n"
         "  ld.param.u64 %p1, [data];\n  cvta.to.global.u64 %p2, %p1;\n"
         "  ld.global.u32 %r1, [%p2];\n  add.u32 %r2, %r1, " + std::to_string(what) + ";\n"
         "  st.global.u32 [%p2], %r2;\n  ret;\n}\n";
}

int main() {
  unsigned* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof *data));
  CHECK(cudaMemset(data, 0, sizeof *data));
  const std::string texts[] = {ptx_of("of_the_first", 1), ptx_of("of_the_second", 20)};
  CUkernel kernels[2];
  for (int i = 0; i < 2; ++i) {
    CUlibrary library;
    DRIVER(cuLibraryLoadData, &library, texts[i].c_str(), nullptr, nullptr, 0u, nullptr, nullptr, 0u);
    DRIVER(cuLibraryGetKernel, &kernels[i], library, "twin");
  }
  for (CUkernel kernel : kernels) {
    int registers = 0;
    DRIVER(cuKernelGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, CUdevice{0});
    EXPECT(registers > 0);
  }
  void* parameters[] = {&data};
  for (CUkernel kernel : kernels) {
    DRIVER(cuLaunchKernel, reinterpret_cast<CUfunction>(kernel), 1u, 1u, 1u, 1u, 1u, 1u, 0u, nullptr, parameters, nullptr);
  }
  CHECK(cudaDeviceSynchronize());
  unsigned sum = 0;
  CHECK(cudaMemcpy(&sum, data, sizeof sum, cudaMemcpyDeviceToHost));
  EXPECT(sum == 21);
  std::printf("ok\n");
  return 0;
}
