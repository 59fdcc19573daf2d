// Memory that is reached through memory: batches of pointers, structures with pointers, a list over many allocations.
#include "hip_check.hpp"

struct Matrix {
  float* values;
  int rows, columns;
};

struct Node {
  Node* next;
  int value;
};

__global__ void scale_batch(float** batch, float factor, int count) {
  float* mine = batch[blockIdx.x];
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) mine[i] *= factor;
}

__global__ void transpose(const Matrix* matrices) {
  const Matrix& from = matrices[0];
  const Matrix& to = matrices[1];
  for (int i = static_cast<int>(threadIdx.x); i < from.rows * from.columns; i += static_cast<int>(blockDim.x)) {
    to.values[i % from.columns * to.columns + i / from.columns] = from.values[i];
  }
}

__global__ void walk(Node* first, int* sum) {
  for (Node* node = first; node != nullptr; node = node->next) {
    *sum += node->value;
    node->value = -node->value;
  }
}

int main() {
  Tally tally("pointers_in_memory");
  constexpr int k_batch = 6, k_values = 100;
  std::vector<DeviceArray<float>*> arrays;
  std::vector<float*> pointers;
  for (int b = 0; b < k_batch; ++b) {
    arrays.push_back(new DeviceArray<float>(std::vector<float>(k_values, static_cast<float>(b + 1))));
    pointers.push_back(arrays.back()->get());
  }
  const DeviceArray<float*> batch(pointers);
  scale_batch<<<k_batch, 64>>>(batch.get(), 3.0f, k_values);
  HIP_DONE();
  for (int b = 0; b < k_batch; ++b) tally.equal("batch", arrays[b]->read(), std::vector<float>(k_values, 3.0f * static_cast<float>(b + 1)));

  std::vector<float> values(12 * 5), flipped(12 * 5);
  for (int i = 0; i < 60; ++i) values[i] = static_cast<float>(i);
  for (int r = 0; r < 12; ++r) {
    for (int c = 0; c < 5; ++c) flipped[c * 12 + r] = values[r * 5 + c];
  }
  const DeviceArray<float> from(values), to(60);
  const DeviceArray<Matrix> matrices(std::vector<Matrix>{{from.get(), 12, 5}, {to.get(), 5, 12}});
  transpose<<<1, 64>>>(matrices.get());
  HIP_DONE();
  tally.equal("transposed", to.read(), flipped);

  std::vector<DeviceArray<Node>*> nodes;
  Node* next = nullptr;
  for (int i = 0; i < 20; ++i) {
    nodes.push_back(new DeviceArray<Node>(std::vector<Node>{{next, i}}));
    next = nodes.back()->get();
  }
  const DeviceArray<int> sum(std::vector<int>(1, 1000));
  walk<<<1, 1>>>(next, sum.get());
  HIP_DONE();
  tally.equal("sum", sum.read(), {1190});
  return tally.finish();
}
