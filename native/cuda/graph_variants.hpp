// Variants in CUDA graphs. A kernel node of the program's graph has the variant while the driver makes the graph executable,
// and the captured kernel before and after: programs read their nodes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/cuda_headers.hpp"
#include "cuda/launch.hpp"

namespace kerncap::cuda {

class GraphVariants {
 public:
  // A call that reads the nodes of a graph begins on this thread, and ends.
  void begin(CUgraph graph) noexcept;
  // `executable` is new, and has what the graph had.
  void made(CUgraphExec executable) noexcept;
  // It has that now; its nodes keep their names.
  void updated(CUgraphExec executable) noexcept;
  // Likewise what `node` of it runs, which is a graph.
  void child_made(CUgraphExec executable, CUgraphNode node) noexcept;
  void failed() noexcept;
  // At the end of any call, where nothing more is replaced: what this thread has lent is put back.
  void give_up() noexcept;

  // The program has set a kernel node of an executable.
  void node_set(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept;
  void node_enabled(CUgraphExec executable, CUgraphNode node, bool is_enabled) noexcept;
  void launched(CUgraphExec executable) noexcept;
  void destroyed(CUgraphExec executable) noexcept;

 private:
  // A node that launches a selected kernel.
  struct Node {
    CUgraphNode outer = nullptr;         // in the executable itself: the same, or what runs the graph that it is in
    CUgraphNode node = nullptr;
    std::uint32_t rule = 0;
    bool is_replaced = false;
    bool is_enabled = true;
    LaunchCall asked;                    // by the program; no parameters
  };
  // What a node had, while it has a variant.
  struct Lent {
    CUgraphNode node = nullptr;
    CUDA_KERNEL_NODE_PARAMS before{};
  };
  struct Call {
    std::vector<Node> nodes;
    std::vector<Lent> lent;
  };
  static Call& this_call() noexcept;
  void lend(CUgraph graph, CUgraphNode outer, Call& call) noexcept;
  static void put_back(Call& call) noexcept;

  std::mutex m_mutex;                    // never held while the driver is called
  std::map<CUgraphExec, std::vector<Node>> m_executables;
};

}  // namespace kerncap::cuda
