// One dispatch of `target` while three other streams count without a pause, each in a word of its own.
// Prints the address of each counter, and how far it had come when `target` was launched and at the end.
#include <atomic>
#include <thread>

#include "hip_check.hpp"

__global__ void target(int* data, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = data[i] * 2 + 1;
}

__global__ void count_up(int* counter) { *counter += 1; }

int main() {
  constexpr int k_streams = 3, k_count = 5000, k_before = 20, k_after = 20;
  Tally tally("busy_streams");
  const DeviceArray<int> data(std::vector<int>(k_count, 7));
  std::vector<int*> counters(k_streams);
  std::vector<int> launches(k_streams);
  std::atomic<int> launched[k_streams] = {};
  std::atomic<bool> stop{false};
  for (int*& counter : counters) {
    HIP_OK(hipMalloc(&counter, sizeof(int)));
    HIP_OK(hipMemset(counter, 0, sizeof(int)));
  }
  HIP_OK(hipDeviceSynchronize());
  std::vector<std::thread> threads;
  for (int s = 0; s < k_streams; ++s) {
    threads.emplace_back([&, s] {
      hipStream_t stream;
      HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
      while (!stop.load()) {
        count_up<<<1, 1, 0, stream>>>(counters[s]);
        if (++launches[s] % 8 == 0) HIP_OK(hipStreamSynchronize(stream));
        launched[s].fetch_add(1);
      }
      HIP_OK(hipStreamSynchronize(stream));
    });
  }
  const auto everybody_has = [&](int least) {
    for (auto& each : launched)
      while (each.load() < least) std::this_thread::yield();
  };
  hipStream_t stream;
  HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  everybody_has(k_before);
  int at_launch[k_streams];
  for (int s = 0; s < k_streams; ++s) at_launch[s] = launched[s].load();
  target<<<(k_count + 127) / 128, 128, 0, stream>>>(data.get(), k_count);
  HIP_OK(hipStreamSynchronize(stream));
  for (int s = 0; s < k_streams; ++s)
    while (launched[s].load() < at_launch[s] + k_after) std::this_thread::yield();
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  for (int s = 0; s < k_streams; ++s) {
    int counted = 0;
    HIP_OK(hipMemcpy(&counted, counters[s], sizeof counted, hipMemcpyDeviceToHost));
    tally.equal("counter", s, counted, launches[s]);
    std::printf("counter %p %d %d\n", static_cast<void*>(counters[s]), at_launch[s], counted);
  }
  std::printf("data %p\n", static_cast<void*>(data.get()));
  tally.equal("target", data.read(), std::vector<int>(k_count, 15));
  return tally.finish();
}
