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
__global__ void add_for_ever(int* where, volatile int* stop) {
  while (*stop == 0) atomicAdd(where, 1);
}

// Memory of the program's that the GPU was given. Its range goes to standard error, for who reads the report of the fault.
char* registered(std::size_t size_bytes, int protection = PROT_READ | PROT_WRITE) {
  void* host = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(host, size_bytes, protection);
  HIP_OK(hipHostRegister(host, size_bytes, hipHostRegisterDefault));
  std::fprintf(stderr, "range %p %p\n", host, static_cast<void*>(static_cast<char*>(host) + size_bytes));
  return static_cast<char*>(host);
}

// A kernel that goes on until it fails is running.
void wait_until_it_runs() { HIP_OK(hipStreamQuery(nullptr) == hipErrorNotReady ? hipSuccess : hipErrorUnknown); }

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
  } else if (what == "beyond-the-end" || what == "freed") {
    constexpr std::size_t k_own_bytes = 8 << 20;  // large enough to be a mapping of its own
    int* own = nullptr;
    HIP_OK(hipMalloc(&own, k_own_bytes));
    int* last = own + k_own_bytes / sizeof(int) - 64;
    write_at<<<1, 64>>>(last, 1);
    HIP_DONE();
    int* wrong = last + 64;
    if (what == "freed") {
      HIP_OK(hipFree(own));
      wrong = last;
    }
    std::fprintf(stderr, "range %p %p\n", static_cast<void*>(wrong), static_cast<void*>(wrong + 64));
    write_at<<<1, 64>>>(wrong, 1);
  } else if (what == "host-memory") {
    // The CPU may read it, the GPU was never let in.
    void* host = mmap(nullptr, k_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::fprintf(stderr, "range %p %p\n", host, static_cast<void*>(static_cast<char*>(host) + k_bytes));
    read_at<<<1, 64>>>(static_cast<const int*>(host), device);
  } else if (what == "unmapped-under-it" || what == "unmapped-with-handler") {
    // Registered, and taken away while a kernel reads it. A handler of the program's own gets the program's faults only.
    if (what == "unmapped-with-handler") {
      struct sigaction action {};
      action.sa_handler = [](int) { std::_Exit(9); };
      sigaction(SIGSEGV, &action, nullptr);
      std::signal(SIGBUS, action.sa_handler);
    }
    char* host = registered(k_bytes);
    for_ever<<<1, 1>>>(reinterpret_cast<volatile int*>(host));
    wait_until_it_runs();
    munmap(host, k_bytes);
  } else if (what == "unmapped-before-it") {
    char* host = registered(k_bytes);
    munmap(host, k_bytes);
    read_at<<<1, 64>>>(reinterpret_cast<int*>(host), device);
  } else if (what == "registered-read-only") {
    write_at<<<1, 64>>>(reinterpret_cast<int*>(registered(k_bytes, PROT_READ)), 1);
  } else if (what == "made-read-only") {
    char* host = registered(k_bytes);
    mprotect(host, k_bytes, PROT_READ);
    write_at<<<1, 64>>>(reinterpret_cast<int*>(host), 1);
  } else if (what == "made-read-only-under-atomics") {
    char* host = registered(k_bytes);
    HIP_OK(hipMemset(device, 0, 4));
    add_for_ever<<<1, 1>>>(reinterpret_cast<int*>(host), device);
    wait_until_it_runs();
    mprotect(host, k_bytes, PROT_READ);
  } else if (what == "closed") {
    char* host = registered(k_bytes);
    mprotect(host, k_bytes, PROT_NONE);
    read_at<<<1, 64>>>(reinterpret_cast<int*>(host), device);
  } else if (what == "other-gpu") {
    HIP_OK(hipSetDevice(1));
    int* other = nullptr;
    HIP_OK(hipMalloc(&other, k_bytes));
    std::fprintf(stderr, "range %p %p\n", static_cast<void*>(other), static_cast<void*>(other + k_bytes / 4));
    HIP_OK(hipSetDevice(0));
    write_at<<<1, 64>>>(other, 1);
  } else if (what == "hung") {
    // Not a fault: the program is to be ended from outside, as HIP's own destructors wait for the kernel.
    for_ever<<<1, 1>>>(reinterpret_cast<volatile int*>(registered(k_bytes)));
    wait_until_it_runs();
    std::exit(0);
  } else if (what == "lds") {
    beyond_lds<<<64, 1, 1024>>>(device, 100000);
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
