// nvcc: -I/usr/local/cuda/extras/CUPTI/include
// Takes records of its kernels by CUPTI itself, as profilers in programs do, before the target and behind it.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "check.cuh"
#include "cupti_calls.cuh"

__global__ void target(int* data) { *data += 1; }
__global__ void later(int* data) { *data += 1; }

static std::atomic<int> g_later{0};

static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *bytes = 1 << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *bytes));
  *most = 0;
}

static void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (CUPTI(cuptiActivityGetNextRecord)(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const char* name = reinterpret_cast<const CUpti_ActivityKernel9*>(record)->name;
    if (name != nullptr && std::strstr(name, "later") != nullptr) ++g_later;
  }
  std::free(buffer);
}

int main(int, char** words) {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, sizeof *data));
  CHECK(cudaMemset(data, 0, sizeof *data));
  open_cupti(words[1]);
  EXPECT(CUPTI(cuptiActivityRegisterCallbacks)(give_buffer, take_buffer) == CUPTI_SUCCESS);
  EXPECT(CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == CUPTI_SUCCESS);
  for (int i = 0; i < 3; ++i) target<<<1, 1>>>(data);
  CHECK(cudaDeviceSynchronize());
  usleep(500'000);   // by then the capture is over
  for (int i = 0; i < 10; ++i) later<<<1, 1>>>(data);
  CHECK(cudaDeviceSynchronize());
  EXPECT(CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS);
  EXPECT(g_later == 10);
  std::printf("ok\n");
  return 0;
}
