// A second stream runs a kernel that ends only after the target has: nothing can wait for both in another order.
// Then a second target, with nothing in its way.
#include "hip_check.hpp"

__global__ void spin(volatile int* flag) {
  while (*flag == 0) {
  }
}
__global__ void target(int* data) { data[threadIdx.x] += 1; }

int main() {
  Tally tally("never_drains");
  hipStream_t first, second;
  HIP_OK(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
  int* flag;
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof *flag, 0));
  *static_cast<volatile int*>(flag) = 0;
  const DeviceArray<int> data(std::vector<int>(64, 5));
  spin<<<1, 1, 0, second>>>(flag);
  target<<<1, 64, 0, first>>>(data.get());
  HIP_OK(hipStreamSynchronize(first));
  __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
  HIP_OK(hipStreamSynchronize(second));
  tally.equal("first", data.read(), std::vector<int>(64, 6));
  target<<<1, 64, 0, first>>>(data.get());
  HIP_OK(hipStreamSynchronize(first));
  tally.equal("second", data.read(), std::vector<int>(64, 7));
  return tally.finish();
}
