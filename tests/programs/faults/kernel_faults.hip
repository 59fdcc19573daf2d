// kernel_faults CASE: one thing that a kernel must not do. The process ends by ROCr's own handling of it.
#include <sys/mman.h>

#include <csignal>
#include <string_view>

#include "hip_check.hpp"

namespace {

__global__ void write_at(int* where, int value) { where[threadIdx.x] = value; }
__global__ void read_at(const int* where, int* out) { out[threadIdx.x] = where[threadIdx.x]; }
__global__ void beyond_lds(int* out, unsigned index) {
  extern __shared__ int lds[];
  lds[index] = 1;
  out[0] = lds[index + 1];
}
__global__ void give_up() { __builtin_trap(); }
__global__ void unknown_instruction() { asm volatile(".long 0xBFFFFFFF\n"); }
__global__ void for_ever(volatile int* stop) {
  while (*stop == 0) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::size_t k_bytes = 1 << 20;
  const std::string_view what = argc == 2 ? argv[1] : "";
  int* device = nullptr;
  HIP_OK(hipMalloc(&device, k_bytes));
  if (what == "stray-write") {
    write_at<<<1, 64>>>(reinterpret_cast<int*>(0x123456789000), 1);
  } else if (what == "stray-read") {
    read_at<<<1, 64>>>(reinterpret_cast<const int*>(0x123456789000), device);
  } else if (what == "null") {
    write_at<<<1, 64>>>(nullptr, 1);
  } else if (what == "host-memory") {
    // The CPU may read it, the GPU was never let in.
    void* host = mmap(nullptr, k_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    read_at<<<1, 64>>>(static_cast<const int*>(host), device);
  } else if (what == "unmapped-under-it" || what == "unmapped-with-handler") {
    // Registered, and taken away while a kernel reads it. A handler of the program's own gets the program's faults only.
    if (what == "unmapped-with-handler") {
      struct sigaction action {};
      action.sa_handler = [](int) { std::_Exit(9); };
      sigaction(SIGSEGV, &action, nullptr);
      std::signal(SIGBUS, action.sa_handler);
    }
    void* host = mmap(nullptr, k_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HIP_OK(hipHostRegister(host, k_bytes, hipHostRegisterDefault));
    for_ever<<<1, 1>>>(static_cast<volatile int*>(host));
    HIP_OK(hipStreamQuery(nullptr) == hipErrorNotReady ? hipSuccess : hipErrorUnknown);
    munmap(host, k_bytes);
  } else if (what == "lds") {
    beyond_lds<<<1, 1, 1024>>>(device, 100000);
  } else if (what == "trap") {
    give_up<<<1, 64>>>();
  } else if (what == "unknown-instruction") {
    unknown_instruction<<<1, 64>>>();
  } else {
    std::fprintf(stderr, "unknown case\n");
    return 2;
  }
  hipError_t error = hipGetLastError();  // of the launch
  if (error == hipSuccess) error = hipDeviceSynchronize();
  std::fprintf(stderr, "went on: %s\n", hipGetErrorString(error));
  return error == hipSuccess ? 0 : 3;
}
