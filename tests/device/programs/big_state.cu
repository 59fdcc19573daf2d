// Holds as many GiB as it is told, incompressible, and prints how long each step of its loop took. One step launches
// the kernel that writes a few MiB of it.
//
//   big_state GIB STEPS [LEFT_GIB]          LEFT_GIB: all that is free but so much is taken, too: no room for a copy
#include <algorithm>
#include <chrono>
#include <vector>

#include "check.cuh"

__global__ void fill(unsigned long long* data, size_t count, unsigned long long seed) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<size_t>(gridDim.x) * blockDim.x) {
    unsigned long long x = seed + i * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    data[i] = x ^ (x >> 31);
  }
}

__global__ void touch(unsigned* data, size_t count) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < count) data[i] = data[i] * 1664525u + 1013904223u;
}

int main(int argc, char** argv) {
  const size_t gib = argc > 1 ? std::atoi(argv[1]) : 1;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 50;
  const size_t left = argc > 3 ? static_cast<size_t>(std::atoi(argv[3])) << 30 : 0;
  std::vector<unsigned long long*> parts;
  const size_t count = (1ull << 30) / 8;
  for (size_t i = 0; i < gib; ++i) {
    unsigned long long* part = nullptr;
    CHECK(cudaMalloc(&part, count * 8));
    fill<<<1056, 256>>>(part, count, i * 0x1234567ull);
    parts.push_back(part);
  }
  // Memory of another context's would be out of reach; this one is reserved without being anybody's allocation.
  if (left != 0) {
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    unsigned long long keep = ~0ull;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    size_t free = 0;
    size_t total = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    void* held = nullptr;
    CHECK(cudaMallocAsync(&held, free > left ? free - left : 1, nullptr));
    CHECK(cudaFreeAsync(held, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemGetInfo(&free, &total));
    std::printf("left_gib %zu\n", free >> 30);
  }
  CHECK(cudaDeviceSynchronize());
  std::vector<double> times;
  for (int step = 0; step < steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    touch<<<4096, 256>>>(reinterpret_cast<unsigned*>(parts[0]), 4096 * 256);
    CHECK(cudaDeviceSynchronize());
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  std::printf("longest_s %.6f median_s %.9f\n", sorted.back(), sorted[sorted.size() / 2]);
  return 0;
}
