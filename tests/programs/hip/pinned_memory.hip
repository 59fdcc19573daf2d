// Host memory that a kernel uses directly: allocated as pinned, and registered after the fact.
#include <sys/mman.h>

#include "hip_check.hpp"

__global__ void transform(const int* in, int* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = in[i] * 3 + 1;
}

void check(Tally& tally, const char* what, int* in, int* out, int count) {
  for (int i = 0; i < count; ++i) in[i] = i - 100, out[i] = 0;
  int *device_in = nullptr, *device_out = nullptr;
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void**>(&device_in), in, 0));
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void**>(&device_out), out, 0));
  transform<<<(count + 127) / 128, 128>>>(device_in, device_out, count);
  HIP_DONE();
  for (int i = 0; i < count; ++i) tally.equal(what, i, out[i], (i - 100) * 3 + 1);
}

// The driver takes only what is mapped. What the program may only read, a kernel may read.
void check_ranges(Tally& tally) {
  constexpr std::size_t k_page = 4096;
  constexpr int k_count = k_page / sizeof(int);
  char* pages = static_cast<char*>(mmap(nullptr, 5 * k_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const auto is_refused = [&](const char* what, int first, int count) {
    const hipError_t error = hipHostRegister(pages + first * k_page, count * k_page, hipHostRegisterDefault);
    tally.expect(error != hipSuccess, what, 0, error, hipErrorInvalidValue);
    (void)hipGetLastError();
  };
  munmap(pages + k_page, k_page);
  is_refused("unmapped", 1, 1);
  is_refused("with a hole at its end", 0, 2);
  is_refused("with a hole in it", 0, 3);
  int* read_only = reinterpret_cast<int*>(pages + 3 * k_page);
  for (int i = 0; i < k_count; ++i) read_only[i] = i - 100;
  mprotect(read_only, k_page, PROT_READ);
  HIP_OK(hipHostRegister(read_only, k_page, hipHostRegisterDefault));
  DeviceArray<int> out(k_count);
  transform<<<k_count / 128, 128>>>(read_only, out.get(), k_count);
  HIP_DONE();
  const std::vector<int> values = out.read();
  for (int i = 0; i < k_count; ++i) tally.equal("read-only", i, values[i], (i - 100) * 3 + 1);
  HIP_OK(hipHostUnregister(read_only));
}

int main() {
  constexpr int k_count = 4000;
  Tally tally("pinned_memory");
  for (const unsigned flags : {0u, 0u + hipHostMallocNonCoherent, 0u + hipHostMallocCoherent}) {
    int *in = nullptr, *out = nullptr;
    HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&in), k_count * sizeof(int), hipHostMallocMapped | flags));
    HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&out), k_count * sizeof(int), hipHostMallocMapped | flags));
    check(tally, "allocated", in, out, k_count);
    HIP_OK(hipHostFree(in));
    HIP_OK(hipHostFree(out));
  }
  std::vector<int> in(k_count), out(k_count);
  HIP_OK(hipHostRegister(in.data(), k_count * sizeof(int), hipHostRegisterMapped));
  HIP_OK(hipHostRegister(out.data(), k_count * sizeof(int), hipHostRegisterMapped));
  check(tally, "registered", in.data(), out.data(), k_count);
  HIP_OK(hipHostUnregister(in.data()));
  HIP_OK(hipHostUnregister(out.data()));
  check_ranges(tally);
  return tally.finish();
}
