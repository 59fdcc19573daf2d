// Two GPUs: copies between them, and a kernel on one that reads and writes the other's memory.
#include "hip_check.hpp"

__global__ void add(const int* theirs, int* mine, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) mine[i] += theirs[i];
}

int main() {
  constexpr int k_count = 6000;
  constexpr std::size_t k_bytes = k_count * sizeof(int);
  Tally tally("peer_copies");
  int devices = 0;
  HIP_OK(hipGetDeviceCount(&devices));
  tally.expect(devices >= 2, "devices", 0, devices, 2);
  if (devices < 2) return tally.finish();

  int* data[2] = {};
  for (int device = 0; device < 2; ++device) {
    int reachable = 0;
    HIP_OK(hipSetDevice(device));
    HIP_OK(hipDeviceCanAccessPeer(&reachable, device, 1 - device));
    tally.equal("reachable", device, reachable, 1);
    HIP_OK(hipDeviceEnablePeerAccess(1 - device, 0));
    HIP_OK(hipMalloc(reinterpret_cast<void**>(&data[device]), k_bytes));
  }
  std::vector<int> host(k_count), back(k_count), wanted(k_count);
  for (int i = 0; i < k_count; ++i) host[i] = i * 5;
  HIP_OK(hipSetDevice(0));
  HIP_OK(hipMemcpy(data[0], host.data(), k_bytes, hipMemcpyHostToDevice));
  HIP_OK(hipMemcpyPeer(data[1], 1, data[0], 0, k_bytes));
  HIP_OK(hipMemcpy(back.data(), data[1], k_bytes, hipMemcpyDeviceToHost));
  tally.equal("peer copy", back, host);

  HIP_OK(hipSetDevice(1));
  add<<<(k_count + 127) / 128, 128>>>(data[0], data[1], k_count);  // device 1 reads device 0
  HIP_DONE();
  HIP_OK(hipSetDevice(0));
  add<<<(k_count + 127) / 128, 128>>>(data[0], data[1], k_count);  // device 0 writes device 1
  HIP_DONE();
  for (int i = 0; i < k_count; ++i) wanted[i] = 3 * host[i];
  HIP_OK(hipMemcpy(back.data(), data[1], k_bytes, hipMemcpyDeviceToHost));
  tally.equal("peer kernels", back, wanted);
  for (int* pointer : data) HIP_OK(hipFree(pointer));
  return tally.finish();
}
