// Outputs that no argument leads to directly, each written twice with the same values.
#include <hip/hip_runtime.h>

#ifdef NOTHING
#define WRITE(place, value) ((void)(place), (void)(value))
#else
#define WRITE(place, value) (place) = (value)
#endif

struct Leaf {
  float* data;
};
struct Node {
  Leaf* leaf;
};
struct Link {
  float value;
  Link* next;
};
struct Arguments {
  const float* in;
  float* out;
};

__constant__ Arguments arguments;
__device__ float exported[64];
static __device__ float hidden[64];

__global__ void through_a_chain(Node* node, const float* in) {
  WRITE(node->leaf->data[threadIdx.x], in[threadIdx.x] * 2);
}
// Its outputs lie beside the addresses that it follows.
__global__ void along_a_list(Link* first, const float* in) {
  for (Link* link = first; link != nullptr; link = link->next) WRITE(link->value, *in++ * 10);
}
// More outputs than are tried one by one, and the last of them is not like the others.
__global__ void to_rows(float** rows, const float* in) {
  float& place = rows[blockIdx.x][threadIdx.x];
  if (blockIdx.x + 1 < gridDim.x) {
    place = in[threadIdx.x] * 11;
  } else {
    WRITE(place, in[threadIdx.x] * 11);
  }
}
__global__ void from_constant() { WRITE(arguments.out[threadIdx.x], arguments.in[threadIdx.x] * 3); }
__global__ void to_exported(const float* in) { WRITE(exported[threadIdx.x], in[threadIdx.x] * 4); }
__global__ void to_hidden(const float* in) { WRITE(hidden[threadIdx.x], in[threadIdx.x] * 5); }
__global__ void of_hidden(float* out) { out[threadIdx.x] = hidden[threadIdx.x]; }  // or nothing would be written there
__global__ void through_const(const float* in, const float* out) {
  WRITE(const_cast<float*>(out)[threadIdx.x], in[threadIdx.x] * 6);
}
__global__ void from_outside(const float* in, float* out) {
  WRITE(out[static_cast<int>(threadIdx.x) - 100000], in[threadIdx.x] * 7);
}
// The last output is reached by arithmetic alone, beside one that an argument leads to.
__global__ void by_stride(const float* in, float* out, int slot, long stride) {
  out[threadIdx.x] = in[threadIdx.x] * 8;
  float* last = reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(out) + static_cast<uintptr_t>(slot * stride));
  WRITE(last[threadIdx.x], in[threadIdx.x] * 9);
}
__global__ void to_nothing(const float* in, int never) {
  if (never != 0) WRITE(const_cast<float*>(in)[threadIdx.x], 0);
}

int main() {
  constexpr int k_count = 64;
  constexpr size_t k_bytes = k_count * sizeof(float);
  float *in = nullptr, *out[7] = {};
  Node* node = nullptr;
  Leaf* leaf = nullptr;
  if (hipMalloc(&in, k_bytes) != hipSuccess || hipMalloc(&node, sizeof *node) != hipSuccess ||
      hipMalloc(&leaf, sizeof *leaf) != hipSuccess)
    return 2;
  for (float*& each : out) {
    if (hipMalloc(&each, k_bytes) != hipSuccess || hipMemset(each, 0, k_bytes) != hipSuccess) return 2;
  }
  float values[k_count];
  for (int i = 0; i < k_count; ++i) values[i] = static_cast<float>(i) * 0.75F + 1;
  const Leaf made_leaf{out[0]};
  const Node made_node{leaf};
  const Arguments made{in, out[1]};
  if (hipMemcpy(in, values, k_bytes, hipMemcpyHostToDevice) != hipSuccess ||
      hipMemcpy(leaf, &made_leaf, sizeof made_leaf, hipMemcpyHostToDevice) != hipSuccess ||
      hipMemcpy(node, &made_node, sizeof made_node, hipMemcpyHostToDevice) != hipSuccess ||
      hipMemcpyToSymbol(HIP_SYMBOL(arguments), &made, sizeof made) != hipSuccess)
    return 2;
  constexpr int k_rows = 20, k_links = 8;
  float *made_rows[k_rows], **rows = nullptr;
  Link made_links[k_links], *links = nullptr;
  for (float*& each : made_rows) {
    if (hipMalloc(&each, k_bytes) != hipSuccess || hipMemset(each, 0, k_bytes) != hipSuccess) return 2;
  }
  if (hipMalloc(&rows, sizeof made_rows) != hipSuccess || hipMalloc(&links, sizeof made_links) != hipSuccess) return 2;
  for (int i = 0; i < k_links; ++i) made_links[i] = {0, i + 1 < k_links ? links + i + 1 : nullptr};
  if (hipMemcpy(rows, made_rows, sizeof made_rows, hipMemcpyHostToDevice) != hipSuccess ||
      hipMemcpy(links, made_links, sizeof made_links, hipMemcpyHostToDevice) != hipSuccess)
    return 2;
  for (int turn = 0; turn < 2; ++turn) {
    through_a_chain<<<1, k_count>>>(node, in);
    along_a_list<<<1, 1>>>(links, in);
    to_rows<<<k_rows, k_count>>>(rows, in);
    from_constant<<<1, k_count>>>();
    to_exported<<<1, k_count>>>(in);
    to_hidden<<<1, k_count>>>(in);
    of_hidden<<<1, k_count>>>(out[4]);
    through_const<<<1, k_count>>>(in, out[2]);
    from_outside<<<1, k_count>>>(in, out[3] + 100000);
    by_stride<<<1, k_count>>>(in, out[5], 2, (reinterpret_cast<char*>(out[6]) - reinterpret_cast<char*>(out[5])) / 2);
    to_nothing<<<1, k_count>>>(in, 0);
  }
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
