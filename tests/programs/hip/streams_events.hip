// Work on several streams, ordered by events; a host function in a stream; elapsed times that make sense.
#include "hip_check.hpp"

__global__ void step(int* data, int factor, int term, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = data[i] * factor + term;
}

int main() {
  constexpr int k_count = 2000, k_rounds = 6;
  Tally tally("streams_events");
  hipStream_t streams[3];
  for (hipStream_t& stream : streams) HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  hipEvent_t start, stop, handover;
  HIP_OK(hipEventCreate(&start));
  HIP_OK(hipEventCreate(&stop));
  HIP_OK(hipEventCreateWithFlags(&handover, hipEventDisableTiming));
  const DeviceArray<int> data(std::vector<int>(k_count, 1));

  // One chain of steps that walks over the streams; out of order, the numbers would differ.
  int wanted = 1;
  HIP_OK(hipEventRecord(start, streams[0]));
  for (int round = 0; round < k_rounds; ++round) {
    const hipStream_t stream = streams[round % 3];
    step<<<(k_count + 127) / 128, 128, 0, stream>>>(data.get(), 3, round, k_count);
    wanted = wanted * 3 + round;
    HIP_OK(hipEventRecord(handover, stream));
    HIP_OK(hipStreamWaitEvent(streams[(round + 1) % 3], handover, 0));
  }
  HIP_OK(hipEventRecord(stop, streams[k_rounds % 3]));
  int host_calls = 0;
  HIP_OK(hipLaunchHostFunc(streams[k_rounds % 3], [](void* counter) { ++*static_cast<int*>(counter); }, &host_calls));
  HIP_OK(hipStreamSynchronize(streams[k_rounds % 3]));
  HIP_OK(hipDeviceSynchronize());
  tally.equal("data", data.read(), std::vector<int>(k_count, wanted));
  tally.equal("host calls", 0, host_calls, 1);
  HIP_OK(hipEventQuery(stop));
  float elapsed_ms = -1;
  HIP_OK(hipEventElapsedTime(&elapsed_ms, start, stop));
  tally.expect(elapsed_ms >= 0 && elapsed_ms < 600000, "elapsed", 0, elapsed_ms, 0);

  // Independent work on all streams at once.
  const DeviceArray<int> a(std::vector<int>(k_count, 1)), b(std::vector<int>(k_count, 2)), c(std::vector<int>(k_count, 3));
  const DeviceArray<int>* arrays[3] = {&a, &b, &c};
  for (int round = 0; round < 5; ++round)
    for (int i = 0; i < 3; ++i) step<<<(k_count + 127) / 128, 128, 0, streams[i]>>>(arrays[i]->get(), 2, i, k_count);
  for (const hipStream_t stream : streams) HIP_OK(hipStreamSynchronize(stream));
  for (int i = 0; i < 3; ++i)
    tally.equal("independent", arrays[i]->read(), std::vector<int>(k_count, 32 * (i + 1) + 31 * i));
  for (const hipStream_t stream : streams) HIP_OK(hipStreamDestroy(stream));
  return tally.finish();
}
