// CUDA graphs that hold a kernel that is wanted. A graph launch shows no kernels: they are read when the graph is
// made executable, from its kernel nodes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/result.hpp"
#include "cuda/cuda_headers.hpp"
#include "cuda/launch.hpp"

namespace kerncap::cuda {

// A copy of the program's graph: the program may destroy its own right after it has made it executable.
struct WatchedGraph {
  struct Wanted {
    std::size_t node;                        // in `nodes`
    Kernel kernel;
  };
  CUgraph copy = nullptr;
  std::vector<CUgraphNode> nodes;            // of the copy, in the order in which they were made
  std::vector<Wanted> wanted;
  std::string refusal;                       // why none of it can be captured; empty: it can

  ~WatchedGraph();
};

class Graphs {
 public:
  void instantiated(CUgraphExec executable, CUgraph graph) noexcept;
  void changed(CUgraphExec executable) noexcept;
  void destroyed(CUgraphExec executable) noexcept;
  // Null: nothing in it is wanted.
  [[nodiscard]] std::shared_ptr<WatchedGraph> find(CUgraphExec executable) const noexcept;

 private:
  mutable std::mutex m_mutex;
  std::unordered_map<CUgraphExec, std::shared_ptr<WatchedGraph>> m_watched;
};

// The launch that a kernel node stands for. The parameters belong to the node.
[[nodiscard]] core::Result<LaunchCall> read_kernel_node(CUgraphNode node);
// All nodes that were made before `node`, ready to run alone.
[[nodiscard]] core::Result<CUgraphExec> instantiate_before(const WatchedGraph& graph, std::size_t node);

}  // namespace kerncap::cuda
