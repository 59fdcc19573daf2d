// One kernel in launches of several kinds: from a stream, from a graph, in larger blocks, in another process. It prints
// the sum of what each left, a variable that no kernel of it writes, and what it read from its standard input; its exit
// code is its argument.
// Variants: OTHER adds one to each element; MORE needs LDS and scratch of its own; BOUNDED allows only small blocks;
// WIDE is for half as many blocks of twice the size; COUNTS counts in the
// variable, and LARGER in one of that name with another size.
#include <sys/wait.h>
#include <unistd.h>

#include "hip_check.hpp"

#ifdef LARGER
__device__ int counted[2] = {};
#else
__device__ int counted = 0;
#endif

#ifdef BOUNDED
__launch_bounds__(64)
#endif
__global__ void reverse_blocks(const int* in, int* out) {
  extern __shared__ int staged[];
#ifdef WIDE
  const int size = 64, thread = static_cast<int>(threadIdx.x) % 64, half = static_cast<int>(threadIdx.x) / 64;
  const int index = 128 * static_cast<int>(blockIdx.x) + 64 * half;
  int* const mine = staged + 64 * half;
#else
  const int size = static_cast<int>(blockDim.x), index = size * static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  int* const mine = staged;
#endif
  int value = in[index + thread];
#ifdef OTHER
  value += 1;
#endif
#if defined(COUNTS) || defined(LARGER)
  atomicAdd(reinterpret_cast<int*>(&counted), 1);
#endif
#ifdef MORE
  __shared__ int own[2048];
  volatile int scratch[64];
  for (int i = 0; i < 64; ++i) scratch[i] = value + i;
  for (int i = thread; i < 2048; i += size) own[i] = 0;
  __syncthreads();
  own[thread] = scratch[value & 63] - (value & 63);
  value = own[thread] + own[2047];
#endif
  mine[thread] = value;
  __syncthreads();
  out[index + thread] = mine[size - 1 - thread];
}

static void print_sum(const char* name, const DeviceArray<int>& out) {
  long sum = 0;
  int position = 0;
  for (const int value : out.read()) sum += static_cast<long>(value) * ++position;
  std::printf("%s %ld\n", name, sum);
  std::fflush(stdout);
}

int main(int count, char** arguments) {
  constexpr int k_count = 1024;
  const pid_t child = fork();
  std::vector<int> values(k_count);
  for (int i = 0; i < k_count; ++i) values[i] = i * 3;
  const DeviceArray<int> in(values), out(k_count);
  for (int round = 0; round < 3; ++round) {
    reverse_blocks<<<k_count / 64, 64, 64 * sizeof(int)>>>(in.get(), out.get());
    HIP_DONE();
  }
  if (child == 0) return 0;
  print_sum("stream", out);
  hipStream_t stream;
  hipGraph_t graph;
  hipGraphExec_t executable;
  HIP_OK(hipStreamCreate(&stream));
  HIP_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  reverse_blocks<<<k_count / 64, 64, 64 * sizeof(int), stream>>>(in.get(), out.get());
  HIP_OK(hipStreamEndCapture(stream, &graph));
  HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int round = 0; round < 2; ++round) HIP_OK(hipGraphLaunch(executable, stream));
  HIP_OK(hipStreamSynchronize(stream));
  print_sum("graph", out);
  reverse_blocks<<<k_count / 256, 256, 256 * sizeof(int)>>>(in.get(), out.get());
  HIP_DONE();
  print_sum("large", out);
  int number = 0;
  HIP_OK(hipMemcpyFromSymbol(&number, HIP_SYMBOL(counted), sizeof number));
  std::printf("counted %d\n", number);
  char line[64] = "";
  if (std::fgets(line, sizeof line, stdin) != nullptr) std::printf("read %s", line);
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0 ? 99 : count > 1 ? std::atoi(arguments[1]) : 0;
}
