// Overwrites what one kernel leaves on a multiprocessor for the next one: shared memory, registers, local memory. Built by
// nvcc into scrub.ptx, which is kept in the repository as changed.ptx is, with `.version 7.0` for older drivers.
//
//   nvcc -arch=compute_75 -ptx -O3 scrub.cu -o scrub.ptx
//
// A word is `pattern`, and where `mix` has bits, others from `seed` and the word's place.

constexpr unsigned k_threads = 256;
constexpr unsigned k_registers = 236;     // of each thread, beside those that the compiler needs: 255 at most
constexpr unsigned k_local_bytes = 65536; // scrub.cpp puts another number into the text

__device__ unsigned word_at(unsigned place, unsigned pattern, unsigned mix, unsigned seed) {
  unsigned hash = (place ^ seed) * 0x9E3779B9u;
  hash = (hash ^ hash >> 15) * 0x85EBCA6Bu;
  return pattern ^ ((hash ^ hash >> 13) & mix);
}

// A block for each multiprocessor: 256 threads of 255 registers are all that it has, and `words` of shared memory all that a
// block may have.
extern "C" __global__ void __launch_bounds__(k_threads, 1) kerncap_scrub(unsigned words, unsigned pattern, unsigned mix,
                                                                         unsigned seed) {
  extern __shared__ unsigned shared[];
  for (unsigned i = threadIdx.x; i < words; i += k_threads) {
    shared[i] = word_at(blockIdx.x * words + i, pattern, mix, seed);
  }
  __syncthreads();
  // Volatile: all are read before the barrier and written behind it, so all of them are in registers then.
  volatile unsigned* const mine = shared + threadIdx.x % (words - k_registers);
  unsigned held[k_registers];
#pragma unroll
  for (unsigned i = 0; i < k_registers; ++i) held[i] = mine[i];
  __syncthreads();
#pragma unroll
  for (unsigned i = 0; i < k_registers; ++i) mine[i] = held[i];
}

// As many blocks as run at once: each thread that a multiprocessor has room for writes its own local memory.
extern "C" __global__ void __launch_bounds__(512, 4) kerncap_scrub_local(unsigned words, unsigned pattern, unsigned mix,
                                                                         unsigned seed) {
  unsigned local[k_local_bytes / 4];
  const unsigned thread = blockIdx.x * 512 + threadIdx.x;
  for (unsigned i = 0; i < words; ++i) local[i] = word_at(thread * words + i, pattern, mix, seed);
  // One word, whichever it is, is needed, so that none can be left out. The wait is until the last block has begun: none takes
  // the place of another.
  __nanosleep(1000 + (local[seed % words] & 1));
}

// Comes behind a kernel that is timed, and so behind all kernels that this one launches itself.
extern "C" __global__ void kerncap_behind() {}
