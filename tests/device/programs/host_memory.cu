// Host memory of the odder kinds: a mapped file, half a page range, portable and write-combined pages, read-only ones.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.cuh"

__global__ void add_all(int* file, int* combined, const int* constant, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  file[i] += constant[i];
  combined[i] = file[i] * 2;
}

int main() {
  constexpr int k_count = 10'000;
  constexpr std::size_t k_bytes = 16 * 4096;
  char path[] = "/dev/shm/kerncap-mapped-XXXXXX";   // files of disks cannot be pinned while they may be written
  const int descriptor = mkstemp(path);
  EXPECT(descriptor >= 0 && unlink(path) == 0 && ftruncate(descriptor, k_bytes) == 0);
  void* file = mmap(nullptr, k_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  EXPECT(file != MAP_FAILED);
  CHECK(cudaHostRegister(file, k_bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
  int* combined = nullptr;
  CHECK(cudaHostAlloc(&combined, k_bytes, cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined));
  auto* constant = static_cast<int*>(std::aligned_alloc(4096, k_bytes));
  for (int i = 0; i < k_count; ++i) constant[i] = i, static_cast<int*>(file)[i] = 0;
  CHECK(cudaHostRegister(constant, k_bytes, cudaHostRegisterMapped | cudaHostRegisterReadOnly));
  for (int run = 0; run < 3; ++run) {
    add_all<<<(k_count + 255) / 256, 256>>>(static_cast<int*>(file), combined, constant, k_count);
    CHECK(cudaDeviceSynchronize());
  }
  EXPECT(static_cast<int*>(file)[k_count - 1] == 3 * (k_count - 1) && combined[5] == 30);
  std::printf("ok\n");
  return 0;
}
