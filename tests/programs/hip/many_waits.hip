// Launches a short kernel COUNT times, waits for each, and rests REST_US microseconds before each: argv: [KERNEL [COUNT [REST_US]]].
// Prints the time and the processor time, of all threads, of each launch.
#include <cmath>
#include <cstring>
#include <ctime>

#include "hip_check.hpp"

constexpr unsigned k_columns = 256, k_rows = 128;

__global__ void empty(const float*, float*) {}

template <class Combine>
__device__ float reduce(float value, float* partial, Combine combine) {
  for (int step = 32; step > 0; step /= 2) value = combine(value, __shfl_xor(value, step, 64));
  __syncthreads();  // the last reduction has been read
  if (threadIdx.x % 64 == 0) partial[threadIdx.x / 64] = value;
  __syncthreads();
  value = partial[0];
  for (unsigned i = 1; i < k_columns / 64; ++i) value = combine(value, partial[i]);
  return value;
}

// One row in each block.
__global__ void soft_max(const float* in, float* out) {
  __shared__ float partial[k_columns / 64];
  const unsigned at = blockIdx.x * k_columns + threadIdx.x;
  const float most = reduce(in[at], partial, [](float a, float b) { return fmaxf(a, b); });
  const float power = expf(in[at] - most);
  const float sum = reduce(power, partial, [](float a, float b) { return a + b; });
  out[at] = power / sum;
}

// The sums of each row's prefixes.
__global__ void scan(const float* in, float* out) {
  __shared__ float partial[k_columns / 64];
  const unsigned at = blockIdx.x * k_columns + threadIdx.x;
  float sum = in[at];
  for (unsigned step = 1; step < 64; step *= 2) {
    const float before = __shfl_up(sum, step, 64);
    if (threadIdx.x % 64 >= step) sum += before;
  }
  if (threadIdx.x % 64 == 63) partial[threadIdx.x / 64] = sum;
  __syncthreads();
  for (unsigned i = 0; i < threadIdx.x / 64; ++i) sum += partial[i];
  out[at] = sum;
}

double microseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "scan";
  const unsigned count = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 20;
  const long rest_us = argc > 3 ? std::atol(argv[3]) : 0;
  const bool is_scan = std::strcmp(name, "scan") == 0, is_soft_max = std::strcmp(name, "soft_max") == 0;
  Tally tally("many_waits");

  std::vector<float> values(k_rows * k_columns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 32);
  std::vector<float> expected(values.size(), 0.0F);
  for (std::size_t row = 0; row < values.size(); row += k_columns) {
    double sum = 0;
    for (std::size_t i = row; i < row + k_columns; ++i) {
      sum += is_scan ? values[i] : std::exp(values[i] - 31.0);
      if (is_scan) expected[i] = static_cast<float>(sum);
    }
    for (std::size_t i = row; is_soft_max && i < row + k_columns; ++i) {
      expected[i] = static_cast<float>(std::exp(values[i] - 31.0) / sum);
    }
  }

  const DeviceArray<float> in(values);
  DeviceArray<float> out(values.size());
  out.clear();
  const auto launch = [&] {
    if (is_scan) {
      scan<<<k_rows, k_columns>>>(in.get(), out.get());
    } else if (is_soft_max) {
      soft_max<<<k_rows, k_columns>>>(in.get(), out.get());
    } else {
      empty<<<1, 64>>>(in.get(), out.get());
    }
    HIP_DONE();
  };
  launch();
  const double begin = microseconds(CLOCK_MONOTONIC), begin_cpu = microseconds(CLOCK_PROCESS_CPUTIME_ID);
  for (unsigned i = 0; i < count; ++i) {
    const timespec rest{0, rest_us * 1000};
    if (rest_us > 0) nanosleep(&rest, nullptr);
    launch();
  }
  const double took = microseconds(CLOCK_MONOTONIC) - begin, took_cpu = microseconds(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu;

  const std::vector<float> got = out.read();
  for (std::size_t i = 0; i < got.size(); ++i) tally.near("out", i, got[i], expected[i], 1e-5 * expected[i]);
  std::printf("us_per_launch %.1f\ncpu_us_per_launch %.1f\n", took / count, took_cpu / count);
  return tally.finish();
}
