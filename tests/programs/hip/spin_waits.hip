// Work-groups that wait for each other in memory, many more than could run at once: forward progress for all of them.
#include "hip_check.hpp"

// A chain: each work-group waits for the next higher one, the first to start for the last.
__global__ void chain(int* turn, int* order, int groups) {
  if (threadIdx.x != 0) return;
  const int mine = groups - 1 - static_cast<int>(blockIdx.x);
  while (__hip_atomic_load(turn, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != mine) __builtin_amdgcn_s_sleep(1);
  order[mine] = static_cast<int>(blockIdx.x);
  __hip_atomic_store(turn, mine + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}

// A lock that is taken in the order of tickets, spun on without sleeping; what it guards is not atomic.
__global__ void locked(unsigned* tickets, unsigned* serving, long long* sum) {
  if (threadIdx.x == 0) {
    const unsigned mine = atomicAdd(tickets, 1u);
    while (__hip_atomic_load(serving, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != mine) {
    }
    *sum = *sum * 3 % 1000003 + mine;
    __hip_atomic_store(serving, mine + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  }
  __syncthreads();
}

// Two kernels on two streams hand numbers over, one at a time, and neither ends before the other has begun.
__global__ void produce(int* full, int* slot, int count) {
  for (int i = 0; i < count; ++i) {
    while (__hip_atomic_load(full, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != 0) __builtin_amdgcn_s_sleep(1);
    *slot = i * i;
    __hip_atomic_store(full, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  }
}
__global__ void consume(int* full, const int* slot, int* got, int count) {
  for (int i = 0; i < count; ++i) {
    while (__hip_atomic_load(full, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != 1) {
    }
    got[i] = *const_cast<const volatile int*>(slot);
    __hip_atomic_store(full, 0, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  }
}

// Waits for the host.
__global__ void until_told(const int* told, int* saw) {
  int value;
  while ((value = __hip_atomic_load(told, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM)) == 0) {
  }
  *saw = value;
}

int main() {
  constexpr int k_groups = 150, k_handed = 40;
  Tally tally("spin_waits");

  const DeviceArray<int> turn(std::vector<int>(1, 0)), order(std::vector<int>(k_groups, -1));
  chain<<<k_groups, 64>>>(turn.get(), order.get(), k_groups);
  HIP_DONE();
  std::vector<int> wanted(k_groups);
  for (int i = 0; i < k_groups; ++i) wanted[i] = k_groups - 1 - i;
  tally.equal("chain", order.read(), wanted);

  const DeviceArray<unsigned> tickets(std::vector<unsigned>(1, 0)), serving(std::vector<unsigned>(1, 0));
  const DeviceArray<long long> sum(std::vector<long long>(1, 0));
  locked<<<60, 128>>>(tickets.get(), serving.get(), sum.get());
  HIP_DONE();
  long long expected = 0;
  for (int i = 0; i < 60; ++i) expected = expected * 3 % 1000003 + i;
  tally.equal("lock", sum.read(), std::vector<long long>(1, expected));

  hipStream_t streams[2];
  for (hipStream_t& stream : streams) HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  const DeviceArray<int> full(std::vector<int>(1, 0)), slot(1), got(k_handed);
  consume<<<1, 1, 0, streams[0]>>>(full.get(), slot.get(), got.get(), k_handed);
  produce<<<1, 1, 0, streams[1]>>>(full.get(), slot.get(), k_handed);
  HIP_DONE();
  std::vector<int> squares(k_handed);
  for (int i = 0; i < k_handed; ++i) squares[i] = i * i;
  tally.equal("handed over", got.read(), squares);

  int* told = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&told), 2 * sizeof(int), hipHostMallocCoherent));
  told[0] = told[1] = 0;
  until_told<<<1, 1, 0, streams[0]>>>(told, told + 1);
  HIP_OK(hipGetLastError());
  tally.equal("still waits", 0, hipStreamQuery(streams[0]), hipErrorNotReady);
  __atomic_store_n(told, 99, __ATOMIC_RELEASE);
  HIP_OK(hipStreamSynchronize(streams[0]));
  tally.equal("told", 0, told[1], 99);
  HIP_OK(hipHostFree(told));
  for (const hipStream_t stream : streams) HIP_OK(hipStreamDestroy(stream));
  return tally.finish();
}
