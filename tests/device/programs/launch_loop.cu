// Launches a tiny kernel over and over; prints the time of a launch in each tenth of the loop. Its target is one
// launch of another kernel in the middle, so that the loop shows what comes before and after a capture.
#include <chrono>
#include <vector>

#include "check.cuh"

__global__ void tiny(float* data) { data[threadIdx.x] += 1.0f; }
__global__ void target(float* data) { data[threadIdx.x] *= 2.0f; }
__global__ void busy(float* data, int rounds) {
  float value = data[threadIdx.x];
  for (int i = 0; i < rounds; ++i) value = value * 1.0001f + 0.5f;
  data[threadIdx.x] = value;
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 20000;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 700;   // about 6 us each
  float* data = nullptr;
  CHECK(cudaMalloc(&data, 1024));
  CHECK(cudaMemset(data, 0, 1024));
  tiny<<<1, 32>>>(data);
  CHECK(cudaDeviceSynchronize());
  for (int part = 0; part < 10; ++part) {
    if (part == 5) target<<<1, 32>>>(data);
    CHECK(cudaDeviceSynchronize());
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) busy<<<1, 32>>>(data, rounds);
    CHECK(cudaDeviceSynchronize());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("part %d launch_us %.4f\n", part, seconds / launches * 1e6);
  }
  return 0;
}
