// written_by_hand CODE_OBJECT: its kernel `five_times`, which was written as assembly, writes five times each number below 64.
#include "hip_check.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Tally tally("written_by_hand");
  const DeviceArray<unsigned> out(std::vector<unsigned>(64, 0));
  hipModule_t module{};
  hipFunction_t kernel{};
  HIP_OK(hipModuleLoad(&module, argv[1]));
  HIP_OK(hipModuleGetFunction(&kernel, module, "five_times"));
  unsigned* address = out.get();
  void* arguments[] = {&address};
  HIP_OK(hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  HIP_DONE();
  std::vector<unsigned> expected(64);
  for (unsigned i = 0; i < 64; ++i) expected[i] = 5 * i;
  tally.equal("out", out.read(), expected);
  return tally.finish();
}
