// The kernel's context is given up right behind it, while its state of 400 MiB is on its way.
//
//   given_up green         a green context, which has a part of the GPU's multiprocessors
//   given_up detach        one that is left by cuCtxDetach
#include <cstring>

#include "green.cuh"

constexpr int k_words = 100 << 20;

__global__ void target(int* data) {
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < k_words; i += static_cast<int>(gridDim.x * blockDim.x)) {
    data[i] = 3 * data[i] + i;
  }
}

static int* zeroes() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, k_words * sizeof *data));
  CHECK(cudaMemset(data, 0, k_words * sizeof *data));
  CHECK(cudaDeviceSynchronize());
  return data;
}

static void expect_last(const int* data, int expected) {
  int last = 0;
  CHECK(cudaMemcpy(&last, data + k_words - 1, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == expected);
}

static void in_green_context() {
  int* data = zeroes();
  const CUgreenCtx green = make_green();
  const CUstream stream = stream_of(green);
  CUcontext primary = nullptr;
  CUcontext entered = nullptr;
  DRIVER(cuCtxGetCurrent, &primary);
  DRIVER(cuCtxFromGreenCtx, &entered, green);
  DRIVER(cuCtxSetCurrent, entered);
  target<<<1024, 256, 0, stream>>>(data);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(stream));
  DRIVER(cuStreamDestroy, stream);
  DRIVER(cuGreenCtxDestroy, green);
  DRIVER(cuCtxSetCurrent, primary);
  expect_last(data, k_words - 1);
}

static void in_detached_context() {
  CHECK(cudaFree(nullptr));
  CUcontext primary = nullptr;
  CUcontext context = nullptr;
  CUctxCreateParams parameters{};
  DRIVER(cuCtxGetCurrent, &primary);
  DRIVER(cuCtxCreate, &context, &parameters, 0u, CUdevice{0});
  int* data = zeroes();
  target<<<1024, 256>>>(data);
  CHECK(cudaGetLastError());
  expect_last(data, k_words - 1);
  driver_call("cuCtxDetach", static_cast<CUresult (*)(CUcontext)>(nullptr), context);   // the headers call it old
  DRIVER(cuCtxSetCurrent, primary);
  CHECK(cudaDeviceSynchronize());
}

int main(int argc, char** argv) {
  argc > 1 && std::strcmp(argv[1], "green") == 0 ? in_green_context() : in_detached_context();
  std::printf("ok\n");
  return 0;
}
