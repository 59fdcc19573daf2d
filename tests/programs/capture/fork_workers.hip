// Two workers are forked before the GPU is used; each uses it by itself. The parent then uses it too, and
// forks a child that does not, as a data loader does, before its own dispatch.
#include <sys/wait.h>
#include <unistd.h>

#include "hip_check.hpp"

__global__ void target(int* data, int value) { data[threadIdx.x] = value; }

static int work(int value) {
  const DeviceArray<int> data(std::vector<int>(64, 0));
  target<<<1, 64>>>(data.get(), value);
  HIP_DONE();
  return data.read() == std::vector<int>(64, value) ? 0 : 1;
}

int main() {
  Tally tally("fork_workers");
  pid_t workers[2];
  for (int i = 0; i < 2; ++i) {
    workers[i] = fork();
    if (workers[i] == 0) return work(100 + i);
  }
  for (const pid_t worker : workers) {
    int status = -1;
    waitpid(worker, &status, 0);
    tally.equal("worker", 0, status, 0);
  }
  int devices = 0;
  HIP_OK(hipGetDeviceCount(&devices));
  HIP_OK(hipFree(nullptr));
  const pid_t loader = fork();
  if (loader == 0) _exit(0);
  int status = -1;
  waitpid(loader, &status, 0);
  tally.equal("loader", 0, status, 0);
  tally.equal("parent", 0, work(7), 0);
  return tally.finish();
}
