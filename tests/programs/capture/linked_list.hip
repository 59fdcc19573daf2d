// A list whose nodes lie in allocations of their own, and a buffer that nothing leads to. The third node holds the
// address of a pinned table of pointers. Prints the address of each.
#include "hip_check.hpp"

struct Node {
  Node* next;
  int** table;
  int value;
};

__global__ void fill_unrelated(int* data) { data[threadIdx.x] = static_cast<int>(threadIdx.x); }

__global__ void target(const Node* head, int* sum) {
  int total = 0;
  for (const Node* node = head; node != nullptr; node = node->next) {
    total += node->value;
    if (node->table != nullptr) total += *node->table[3];
  }
  *sum = total;
}

int main() {
  constexpr int k_nodes = 4;
  Tally tally("linked_list");
  // Not beside anything that is used: an address at a border leads to both neighbours.
  const DeviceArray<int> before(1 << 20), unrelated(1 << 20), after(1 << 20);
  const DeviceArray<int> leaf(std::vector<int>(1024, 1000));
  const DeviceArray<int> sum(std::vector<int>(1024, 0));
  int** table;
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&table), 4096, 0));
  std::memset(table, 0, 4096);
  table[3] = leaf.get() + 7;
  Node* nodes[k_nodes];
  for (Node*& node : nodes) HIP_OK(hipMalloc(&node, 4096));
  for (int i = 0; i < k_nodes; ++i) {
    const Node node{i + 1 < k_nodes ? nodes[i + 1] : nullptr, i == 2 ? table : nullptr, 1 << i};
    HIP_OK(hipMemcpy(nodes[i], &node, sizeof node, hipMemcpyHostToDevice));
  }
  fill_unrelated<<<1, 64>>>(unrelated.get());  // its address stays in kernarg memory
  HIP_DONE();
  target<<<1, 1>>>(nodes[0], sum.get());
  HIP_DONE();
  tally.equal("sum", 0, sum.read()[0], 15 + 1000);
  for (Node* node : nodes) std::printf("node %p\n", static_cast<void*>(node));
  std::printf("table %p\nleaf %p\nsum %p\nunrelated %p\n", static_cast<void*>(table), static_cast<void*>(leaf.get()),
              static_cast<void*>(sum.get()), static_cast<void*>(unrelated.get()));
  return tally.finish();
}
