// Device memory of another process: a child opens what its parent allocated, twice, and its kernel writes there behind the first close.
#include <sys/wait.h>
#include <unistd.h>

#include "check.cuh"

__global__ void add_shared(int* shared, const int* own) { shared[threadIdx.x] += own[threadIdx.x]; }

int child(int from) {
  cudaIpcMemHandle_t handle;
  EXPECT(read(from, &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle));
  void* shared = nullptr;
  int* own = nullptr;
  CHECK(cudaIpcOpenMemHandle(&shared, handle, cudaIpcMemLazyEnablePeerAccess));
  void* again = nullptr;
  CHECK(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  EXPECT(again == shared);
  CHECK(cudaIpcCloseMemHandle(again));
  CHECK(cudaMalloc(&own, 128 * sizeof(int)));
  CHECK(cudaMemset(own, 1, 128 * sizeof(int)));
  add_shared<<<1, 128>>>(static_cast<int*>(shared), own);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaIpcCloseMemHandle(shared));
  return 0;
}

int main() {
  int pipe_ends[2];
  EXPECT(pipe(pipe_ends) == 0);
  const pid_t pid = fork();  // before any use of CUDA
  if (pid == 0) return child(pipe_ends[0]);
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 4 << 20));
  CHECK(cudaMemset(data, 0, 4 << 20));
  CHECK(cudaDeviceSynchronize());
  cudaIpcMemHandle_t handle;
  CHECK(cudaIpcGetMemHandle(&handle, data));
  EXPECT(write(pipe_ends[1], &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle));
  int status = 0;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  int first = 0;
  CHECK(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
  EXPECT(first == 0x01010101);
  std::printf("ok\n");
  return 0;
}
