// Atomic operations made from compare-and-swap: a product, and a list whose head is exchanged.
#include "hip_check.hpp"

constexpr int k_bins = 13;
constexpr int k_count = 3000;

__global__ void products(const int* bin_of, const unsigned* factors, unsigned* bins) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= k_count) return;
  unsigned* bin = &bins[bin_of[i]];
  unsigned seen = *bin, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(bin, assumed, assumed * factors[i]);
  } while (seen != assumed);
}

__global__ void push_all(unsigned long long* head, unsigned long long* next) {
  const unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long seen = *head, assumed;
  do {
    assumed = seen;
    next[i] = assumed;
    __threadfence();
    seen = atomicCAS(head, assumed, i);
  } while (seen != assumed);
}

int main() {
  Tally tally("histogram_cmpswap");
  std::vector<int> bin_of(k_count);
  std::vector<unsigned> factors(k_count), wanted(k_bins, 1);
  Random source;
  for (int i = 0; i < k_count; ++i) {
    bin_of[i] = source.whole(0, k_bins);
    factors[i] = static_cast<unsigned>(source.bits()) | 1;
    wanted[bin_of[i]] *= factors[i];
  }
  const DeviceArray<int> device_bin_of(bin_of);
  const DeviceArray<unsigned> device_factors(factors), bins(std::vector<unsigned>(k_bins, 1));
  products<<<(k_count + 127) / 128, 128>>>(device_bin_of.get(), device_factors.get(), bins.get());
  HIP_DONE();
  tally.equal("products", bins.read(), wanted);

  constexpr unsigned long long k_end = ~0ull;
  constexpr int k_nodes = 512;
  const DeviceArray<unsigned long long> head(std::vector<unsigned long long>{k_end}), next(k_nodes);
  push_all<<<k_nodes / 64, 64>>>(head.get(), next.get());
  HIP_DONE();
  const std::vector<unsigned long long> links = next.read();
  std::vector<int> seen(k_nodes);
  int length = 0;
  for (unsigned long long i = head.read()[0]; i != k_end && length <= k_nodes; i = links[i], ++length) ++seen[i % k_nodes];
  tally.equal("length", 0, length, k_nodes);
  tally.equal("each node once", seen, std::vector<int>(k_nodes, 1));
  return tally.finish();
}
