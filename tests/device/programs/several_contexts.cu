// A kernel in the runtime's own context, then one in a second context of the same GPU, each with memory of that context.
#include "driver_calls.cuh"

__global__ void in_first(int* data) { data[threadIdx.x] += 1; }
__global__ void in_second(int* data) { data[threadIdx.x] += 10; }

int* numbers(CUdeviceptr& memory) {
  DRIVER(cuMemAlloc, &memory, 128 * sizeof(int));
  CHECK(cudaMemset(reinterpret_cast<void*>(memory), 0, 128 * sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  return reinterpret_cast<int*>(memory);
}

int main() {
  CHECK(cudaFree(nullptr));
  CUcontext primary = nullptr;
  DRIVER(cuCtxGetCurrent, &primary);
  CUdeviceptr memories[2];
  int* first = numbers(memories[0]);
  CUcontext second_context = nullptr;
  CUctxCreateParams parameters{};
  DRIVER(cuCtxCreate, &second_context, &parameters, 0u, CUdevice{0});
  int* second = numbers(memories[1]);
  for (int run = 0; run < 3; ++run) {
    DRIVER(cuCtxSetCurrent, primary);
    in_first<<<1, 128>>>(first);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    DRIVER(cuCtxSetCurrent, second_context);
    in_second<<<1, 128>>>(second);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  int last = 0;
  CHECK(cudaMemcpy(&last, second + 127, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 30);
  DRIVER(cuCtxSetCurrent, primary);
  CHECK(cudaMemcpy(&last, first + 127, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 3);
  DRIVER(cuCtxDestroy, second_context);
  std::printf("ok\n");
  return 0;
}
