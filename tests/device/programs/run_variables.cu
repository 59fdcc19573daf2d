// A kernel with variables: it counts its launches in one, which the host reads and sets, follows a pointer that is one, and adds
// a constant that the host sets between launches, on two streams.
#include "check.cuh"

#ifndef EXTRA
#define EXTRA 0
#endif

__device__ int launches;
__device__ int* where = &launches;
__constant__ int bonus;
__managed__ int shared_with_host = 100;

__global__ void tally(int* data, int what) {
  data[threadIdx.x] += what + bonus + EXTRA;
  if (threadIdx.x != 0) return;
  ++launches;
  *where += 1000;
  shared_with_host += 1;
}

static int read_launches() {
  int now = 0;
  CHECK(cudaMemcpyFromSymbol(&now, launches, sizeof now));
  return now;
}

int main() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 4096));
  CHECK(cudaMemset(data, 0, 4096));
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  int expected = 0;
  for (int i = 0; i < 4; ++i) {
    const int value = 10 * i;
    CHECK(cudaMemcpyToSymbol(bonus, &value, sizeof value));
    CHECK(cudaDeviceSynchronize());
    tally<<<1, 64, 0, streams[i % 2]>>>(data, 1);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    expected += 1 + value;
    EXPECT(read_launches() == 1001 * (i + 1));
    EXPECT(shared_with_host == 101 + i);
  }
  const int zero = 0;
  CHECK(cudaMemcpyToSymbol(launches, &zero, sizeof zero));
  tally<<<1, 64>>>(data, 1);
  CHECK(cudaDeviceSynchronize());
  expected += 31;
  EXPECT(read_launches() == 1001);
  int first = 0;
  CHECK(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
  std::printf("data %d, %d expected\n", first, expected);
  return 0;
}
