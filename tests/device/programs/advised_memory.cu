// Managed memory that was advised about and moved to and fro: some of it on the device, some on the host.
#include "check.cuh"

__global__ void touch(int* near, int* far, const int* shared, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    near[i] += shared[i];
    far[i] += near[i];
  }
}

int main() {
  constexpr int k_count = 1 << 20;
  constexpr std::size_t k_bytes = k_count * sizeof(int);
  int* near = nullptr;
  int* far = nullptr;
  int* shared = nullptr;
  for (int** made : {&near, &far, &shared}) CHECK(cudaMallocManaged(made, k_bytes));
  const cudaMemLocation device{cudaMemLocationTypeDevice, 0};
  const cudaMemLocation host{cudaMemLocationTypeHost, 0};
  CHECK(cudaMemAdvise(far, k_bytes, cudaMemAdviseSetPreferredLocation, host));
  CHECK(cudaMemAdvise(far, k_bytes, cudaMemAdviseSetAccessedBy, device));
  CHECK(cudaMemAdvise(shared, k_bytes, cudaMemAdviseSetReadMostly, device));
  for (int i = 0; i < k_count; ++i) near[i] = 0, far[i] = 0, shared[i] = i;
  CHECK(cudaMemPrefetchAsync(near, k_bytes, device, 0, nullptr));
  CHECK(cudaMemPrefetchAsync(shared, k_bytes, device, 0, nullptr));
  for (int run = 0; run < 3; ++run) {
    touch<<<k_count / 256, 256>>>(near, far, shared, k_count);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPrefetchAsync(near, k_bytes, run % 2 == 0 ? host : device, 0, nullptr));
  }
  CHECK(cudaDeviceSynchronize());
  EXPECT(near[k_count - 1] == 3 * (k_count - 1));
  EXPECT(far[7] == 7 * (1 + 2 + 3));
  std::printf("ok\n");
  return 0;
}
