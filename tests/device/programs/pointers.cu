// A kernel that is given a table of pointers in device memory, and follows them.
#include <vector>

#include "check.cuh"

struct Row {
  float* values;
  Row* next;
};

__global__ void follow(Row* first, int columns) {
  for (Row* row = first; row != nullptr; row = row->next) {
    for (int i = threadIdx.x; i < columns; i += blockDim.x) row->values[i] = row->values[i] * 2.0f + 1.0f;
  }
}

int main() {
  const int columns = 1000;
  const int rows = 20;
  Row* table = nullptr;
  CHECK(cudaMalloc(&table, rows * sizeof(Row)));
  std::vector<Row> host(rows);
  std::vector<float> values(columns, 3.0f);
  for (int i = 0; i < rows; ++i) {
    CHECK(cudaMalloc(&host[i].values, columns * sizeof(float)));
    CHECK(cudaMemcpy(host[i].values, values.data(), columns * sizeof(float), cudaMemcpyHostToDevice));
    host[i].next = i + 1 < rows ? table + i + 1 : nullptr;
  }
  CHECK(cudaMemcpy(table, host.data(), rows * sizeof(Row), cudaMemcpyHostToDevice));
  follow<<<1, 128>>>(table, columns);
  for (int i = 0; i < rows; ++i) {
    CHECK(cudaMemcpy(values.data(), host[i].values, columns * sizeof(float), cudaMemcpyDeviceToHost));
    EXPECT(values[0] == 7.0f && values[columns - 1] == 7.0f);
  }
  std::printf("ok\n");
  return 0;
}
