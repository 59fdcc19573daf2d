// Kernels whose accesses can be counted by hand, of N = 1000 elements of 4 bytes.
#include "hip_check.hpp"

constexpr unsigned k_count = 1000;
constexpr unsigned k_block = 64;

#define INDEX                                            \
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x; \
  if (i >= k_count) return

// Reads 8 N bytes, writes 4 N.
__global__ void add(const unsigned* a, const unsigned* b, unsigned* out) {
  INDEX;
#ifdef TWICE
  // Each byte of a once more, and half of b is not needed.
  const volatile unsigned* again = a;
  out[i] = a[i] + (again[i] - a[i]) + (i % 2 == 0 ? b[i] : 3 * i);
#else
  out[i] = a[i] + b[i];
#endif
}

// Reads N indices, and of the table each 10th element: 4 N + 4 N / 10.
__global__ void gather(const unsigned* table, const unsigned* indices, unsigned* out) {
  INDEX;
  out[i] = table[indices[i]];
}

// Reads nothing. What it writes to `out` held that before.
__global__ void put_zeros(unsigned* out) {
  INDEX;
  out[i] = 0;
}

// Reads and writes one element, however many work-items add to it.
__global__ void count(unsigned* total) {
  INDEX;
  atomicAdd(total, i);
}

// Reads back what it has written itself: that is not needed of the state before.
__global__ void write_first(unsigned* out) {
  INDEX;
  volatile unsigned* mine = out;
  mine[i] = i + 1;
  mine[i] = mine[i] * 2;
}

// Bytes: reads N of one array, writes N of another, each by itself.
__global__ void bytes(const unsigned char* in, unsigned char* out) {
  INDEX;
  out[i] = static_cast<unsigned char>(in[i] + 1);
}

// The same element for all, by a scalar load: 4 bytes.
__global__ void broadcast(const unsigned* in, unsigned* out) {
  INDEX;
  out[i] = in[0] + i;
}

int main() {
  unsigned* memory[4];
  for (unsigned*& each : memory) {
    HIP_OK(hipMalloc(&each, k_count * sizeof(unsigned)));
    HIP_OK(hipMemset(each, 0, k_count * sizeof(unsigned)));
  }
  auto [a, b, out, other] = memory;
  unsigned host[k_count];
  for (unsigned i = 0; i < k_count; ++i) host[i] = i;
  HIP_OK(hipMemcpy(a, host, sizeof host, hipMemcpyHostToDevice));
  for (unsigned i = 0; i < k_count; ++i) host[i] = i / 10 * 10;
  HIP_OK(hipMemcpy(other, host, sizeof host, hipMemcpyHostToDevice));
  for (unsigned i = 0; i < k_count; ++i) host[i] = 3 * i;
  HIP_OK(hipMemcpy(b, host, sizeof host, hipMemcpyHostToDevice));
  constexpr unsigned k_blocks = (k_count + k_block - 1) / k_block;
  put_zeros<<<k_blocks, k_block>>>(out);
  add<<<k_blocks, k_block>>>(a, b, out);
  gather<<<k_blocks, k_block>>>(a, other, out);
  count<<<k_blocks, k_block>>>(out);
  bytes<<<k_blocks, k_block>>>(reinterpret_cast<unsigned char*>(a), reinterpret_cast<unsigned char*>(other));
  broadcast<<<k_blocks, k_block>>>(a, out);
  write_first<<<k_blocks, k_block>>>(out);
  HIP_DONE();
  unsigned last = 0;
  HIP_OK(hipMemcpy(&last, out + k_count - 1, sizeof last, hipMemcpyDeviceToHost));
  return last == 2 * k_count ? 0 : 1;
}
