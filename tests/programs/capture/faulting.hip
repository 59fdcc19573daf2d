// A `target` that reads where nothing is, or never ends; compiled with -DMENDED it does neither.
#include <cstdint>
#include <string_view>

#include "hip_check.hpp"

__global__ void setup_data(int* data) { data[threadIdx.x] = 5 + static_cast<int>(threadIdx.x); }

__global__ void target(int* data, std::uintptr_t nowhere, int forever) {
#ifdef MENDED
  nowhere = reinterpret_cast<std::uintptr_t>(&data[threadIdx.x]);
  forever = 0;
#endif
  while (forever != 0) forever = *static_cast<volatile int*>(&data[0]);
  data[threadIdx.x] += *reinterpret_cast<int*>(nowhere);
}

int main(int, char** argv) {
  const DeviceArray<int> data(64);
  setup_data<<<1, 64>>>(data.get());
  HIP_DONE();
  target<<<1, 64>>>(data.get(), 0x1000, std::string_view(argv[1]) == "hang");
  HIP_DONE();
  return 0;
}
