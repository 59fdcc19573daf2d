// One kernel over 8 MiB of memory that lies where the program says: on the host it is reached over the bus, many times more
// slowly. Prints "ADDRESS MICROSECONDS", the median of what the device needs for one launch.
//
//   placed_memory mapped | pool | managed | mapped_managed | managed_device | device
#include <algorithm>
#include <cstring>
#include <string>

#include "pools.cuh"

__global__ void target(float4* data, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float4 value = data[i];
    value.x += 1;
    data[i] = value;
  }
}

constexpr std::size_t k_bytes = 8 << 20;
constexpr int k_launches = 21;

static void* managed(bool stays_on_host) {
  void* address = nullptr;
  CHECK(cudaMallocManaged(&address, k_bytes));
  const cudaMemLocation device{cudaMemLocationTypeDevice, 0};
  const cudaMemLocation host{cudaMemLocationTypeHost, 0};
  if (stays_on_host) {
    CHECK(cudaMemAdvise(address, k_bytes, cudaMemAdviseSetPreferredLocation, host));
    CHECK(cudaMemAdvise(address, k_bytes, cudaMemAdviseSetAccessedBy, device));
  }
  CHECK(cudaMemPrefetchAsync(address, k_bytes, stays_on_host ? host : device, 0, nullptr));
  return address;
}

// On the host because that has touched it, and mapped by the device.
static void* touched() {
  void* address = nullptr;
  CHECK(cudaMallocManaged(&address, k_bytes));
  CHECK(cudaMemAdvise(address, k_bytes, cudaMemAdviseSetAccessedBy, {cudaMemLocationTypeDevice, 0}));
  std::memset(address, 0, k_bytes);
  return address;
}

int main(int argc, char** argv) {
  const std::string where = argc > 1 ? argv[1] : "device";
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, k_bytes));
  if (where == "mapped") memory = mapped_on_host(k_bytes, false);
  if (where == "pool") memory = from_pool(cudaMemLocationTypeHost, k_bytes);
  if (where == "managed") memory = managed(true);
  if (where == "managed_device") memory = managed(false);
  if (where == "mapped_managed") memory = touched();
  auto* data = static_cast<float4*>(memory);
  if (where != "mapped_managed") CHECK(cudaMemset(data, 0, k_bytes));
  cudaEvent_t before;
  cudaEvent_t after;
  CHECK(cudaEventCreate(&before));
  CHECK(cudaEventCreate(&after));
  float times_ms[k_launches] = {};
  for (float& time_ms : times_ms) {
    CHECK(cudaEventRecord(before));
    target<<<264, 256>>>(data, k_bytes / sizeof(float4));
    CHECK(cudaEventRecord(after));
    CHECK(cudaEventSynchronize(after));
    CHECK(cudaEventElapsedTime(&time_ms, before, after));
  }
  float4 last{};
  CHECK(cudaMemcpy(&last, data + k_bytes / sizeof(float4) - 1, sizeof last, cudaMemcpyDefault));
  EXPECT(last.x == k_launches && last.y == 0);
  std::nth_element(times_ms, times_ms + k_launches / 2, times_ms + k_launches);
  std::printf("%p %.2f\nok\n", memory, times_ms[k_launches / 2] * 1000);
  return 0;
}
