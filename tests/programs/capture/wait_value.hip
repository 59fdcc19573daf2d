// Another stream waits for a value that is written behind the target. With `host`, that value lies in memory of the
// host, and ROCm waits for it by a kernel that spins. usage: wait_value signal|host
#include <string>

#include "hip_check.hpp"

__global__ void target(int* data) { data[threadIdx.x] += 3; }
__global__ void follow(const int* data, int* copy) { copy[threadIdx.x] = data[threadIdx.x]; }

int main(int, char** argv) {
  Tally tally("wait_value");
  hipStream_t first, second;
  HIP_OK(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
  std::uint64_t* flag;
  if (std::string(argv[1]) == "signal") {
    HIP_OK(hipExtMallocWithFlags(reinterpret_cast<void**>(&flag), sizeof *flag, hipMallocSignalMemory));
  } else {
    HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof *flag, 0));
  }
  *flag = 0;
  const DeviceArray<int> data(std::vector<int>(64, 0)), copy(std::vector<int>(64, 0));
  for (unsigned round = 1; round <= 3; ++round) {
    HIP_OK(hipStreamWaitValue64(second, flag, round, hipStreamWaitValueGte, ~0ull));
    follow<<<1, 64, 0, second>>>(data.get(), copy.get());
    target<<<1, 64, 0, first>>>(data.get());
    HIP_OK(hipStreamWriteValue64(first, flag, round, 0));
    HIP_DONE();
    tally.equal("copy", copy.read(), std::vector<int>(64, static_cast<int>(3 * round)));
  }
  return tally.finish();
}
