// A kernel that waits for one that is launched later, while a large state is sent and its copy on the device is given back.
#include <unistd.h>

#include "check.cuh"

constexpr std::size_t k_count = std::size_t{64} << 20;
constexpr long long k_longest_ns = 10'000'000'000;

__global__ void target(int* data) { data[static_cast<std::size_t>(threadIdx.x) << 20] += 1; }
__global__ void set(volatile int* flag) { *flag = 1; }
// 2 in the word behind the flag when it took too long.
__global__ void wait(volatile int* flag) {
  long long begin = 0;
  long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*flag == 0 && now - begin < k_longest_ns);
  flag[1] = *flag == 0 ? 2 : 1;
}

int main() {
  int* data = nullptr;
  int* flags = nullptr;
  CHECK(cudaMalloc(&data, k_count * sizeof(int)));
  CHECK(cudaMemset(data, 1, k_count * sizeof(int)));
  CHECK(cudaMalloc(&flags, 2 * sizeof(int)));
  CHECK(cudaMemset(flags, 0, 2 * sizeof(int)));
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  set<<<1, 1, 0, streams[1]>>>(flags);   // loaded before there is something to wait for
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemset(flags, 0, 2 * sizeof(int)));
  wait<<<1, 1, 0, streams[0]>>>(flags);  // likewise
  set<<<1, 1, 0, streams[1]>>>(flags);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemset(flags, 0, 2 * sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  target<<<1, 32, 0, streams[1]>>>(data);
  wait<<<1, 1, 0, streams[0]>>>(flags);
  ::usleep(3'000'000);                   // the state has been sent
  set<<<1, 1, 0, streams[1]>>>(flags);
  CHECK(cudaDeviceSynchronize());
  int words[2] = {};
  CHECK(cudaMemcpy(words, flags, sizeof words, cudaMemcpyDeviceToHost));
  EXPECT(words[1] == 1);
  std::printf("ok\n");
  return 0;
}
