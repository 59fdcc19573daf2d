// A kernel on the second GPU adds what lies in the first GPU's memory to its own. Prints both addresses.
#include "hip_check.hpp"

__global__ void target(int* own, const int* peer) { own[threadIdx.x] += peer[threadIdx.x]; }

int main() {
  Tally tally("two_gpus");
  int devices = 0;
  HIP_OK(hipGetDeviceCount(&devices));
  tally.equal("devices", 0, devices, 2);
  HIP_OK(hipSetDevice(0));
  const DeviceArray<int> peer(std::vector<int>(64, 30));
  HIP_OK(hipSetDevice(1));
  HIP_OK(hipDeviceEnablePeerAccess(0, 0));
  const DeviceArray<int> own(std::vector<int>(64, 4));
  target<<<1, 64>>>(own.get(), peer.get());
  HIP_DONE();
  tally.equal("own", own.read(), std::vector<int>(64, 34));
  std::printf("own %p\npeer %p\n", static_cast<void*>(own.get()), static_cast<void*>(peer.get()));
  return tally.finish();
}
