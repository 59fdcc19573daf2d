// Exchange between the lanes of a wave: shuffles, votes and reads of one lane.
#include "hip_check.hpp"

constexpr int k_results = 14;

__global__ void exchange(const int* in, long long* out, int width) {
  const int lane = static_cast<int>(threadIdx.x);
  const int value = in[lane];
  long long* mine = out + lane * k_results;
  mine[0] = __shfl(value, 5);
  mine[1] = __shfl(value, value & 63);
  mine[2] = __shfl_up(value, 3);
  mine[3] = __shfl_down(value, 7);
  mine[4] = __shfl_xor(value, 21);
  mine[5] = __shfl(value, 2, width);
  mine[6] = __shfl_up(value, 1, width);
  mine[7] = __shfl_down(value, 2, width);
  mine[8] = __shfl_xor(value, 3, width);
  mine[9] = static_cast<long long>(__ballot(value % 3 == 0));
  mine[10] = __any(value == in[9]) + 2 * __all(value > -5000);
  mine[11] = __builtin_amdgcn_readfirstlane(value);
  mine[12] = __builtin_amdgcn_readlane(value, 33 % warpSize);
  mine[13] = 0;
  if (value & 1) mine[13] = static_cast<long long>(__ballot(1));  // only the lanes that came here
}

__global__ void sum_wave(const double* in, double* out) {
  double sum = in[threadIdx.x];
  for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += __shfl_xor(sum, offset);
  out[threadIdx.x] = sum;
}

int main() {
  Tally tally("shuffles");
  hipDeviceProp_t properties;
  HIP_OK(hipGetDeviceProperties(&properties, 0));
  const int lanes = properties.warpSize, width = 8;
  std::vector<int> in(lanes);
  Random source;
  for (int& value : in) value = source.whole(-1000, 1000);
  const DeviceArray<int> device_in(in);
  const DeviceArray<long long> device_out(lanes * k_results);
  exchange<<<1, lanes>>>(device_in.get(), device_out.get(), width);
  HIP_DONE();
  const std::vector<long long> out = device_out.read();

  long long thirds = 0, odd = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    if (in[lane] % 3 == 0) thirds |= 1ll << lane;
    if (in[lane] & 1) odd |= 1ll << lane;
  }
  for (int lane = 0; lane < lanes; ++lane) {
    const int first = lane / width * width;
    const auto inside = [&](int other) { return other >= first && other < first + width ? in[other] : in[lane]; };
    const long long wanted[k_results] = {
        in[5], in[(in[lane] & 63) % lanes], in[lane >= 3 ? lane - 3 : lane], in[lane + 7 < lanes ? lane + 7 : lane],
        in[lane ^ 21], in[first + 2], inside(lane - 1), inside(lane + 2), in[lane ^ 3], thirds, 3, in[0],
        in[33 % lanes], in[lane] & 1 ? odd : 0};
    for (int result = 0; result < k_results; ++result) {
      char label[32];
      std::snprintf(label, sizeof label, "result %d, lane", result);
      tally.equal(label, lane, out[lane * k_results + result], wanted[result]);
    }
  }

  std::vector<double> numbers(lanes);
  double sum = 0;
  for (double& number : numbers) sum += number = source.whole(-1000, 1000);
  const DeviceArray<double> device_numbers(numbers), sums(lanes);
  sum_wave<<<1, lanes>>>(device_numbers.get(), sums.get());
  HIP_DONE();
  tally.equal("sum", sums.read(), std::vector<double>(lanes, sum));
  return tally.finish();
}
