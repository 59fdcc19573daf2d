// CUDA graphs that hold a kernel that is wanted. A graph launch shows no kernels: they are read when the graph is
// made executable, from its kernel nodes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
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
    LaunchCall shape;                        // grid and block only
    std::string refusal;                     // why it cannot be captured; empty: it can
  };
  struct Node {
    CUgraphNode node;                        // of the copy
    CUgraphNode original;                    // what the program calls it: maybe gone, never given to the driver
    CUgraphNodeType type;
    std::vector<std::size_t> before;         // what has to end before it begins
  };
  CUgraph copy = nullptr;
  std::vector<Node> nodes;                   // each behind those that it waits for
  std::vector<Wanted> wanted;
  std::atomic<bool> was_changed{false};      // after it had been made executable, and the copy does not follow

  ~WatchedGraph();
};

class Graphs {
 public:
  void instantiated(CUgraphExec executable, CUgraph graph) noexcept;
  // All nodes of an executable have the parameters of this graph's now.
  void updated(CUgraphExec executable, CUgraph graph) noexcept;
  // One of them has others: `set` gives them to the same node of the copy. False: there is none, as nothing in it is wanted.
  bool node_changed(CUgraphExec executable, CUgraphNode node, const std::function<CUresult(CUgraphNode)>& set) noexcept;
  // In a way that the copy cannot follow.
  void changed(CUgraphExec executable) noexcept;
  // A node may have been switched off, and no later update switches it on again.
  void switched(CUgraphExec executable) noexcept;
  void destroyed(CUgraphExec executable) noexcept;
  // Null: nothing in it is wanted.
  [[nodiscard]] std::shared_ptr<WatchedGraph> find(CUgraphExec executable) const noexcept;

 private:
  void watch(CUgraphExec executable, CUgraph graph) noexcept;

  mutable std::mutex m_mutex;
  std::unordered_map<CUgraphExec, std::shared_ptr<WatchedGraph>> m_watched;
  std::set<CUgraphExec> m_switched;
};

// Which nodes have to end before that one begins.
[[nodiscard]] std::vector<bool> ancestors_of(const std::vector<WatchedGraph::Node>& nodes, std::size_t node);
// The graphs that a node runs: a child, or what a condition decides about.
[[nodiscard]] std::vector<CUgraph> graphs_within(CUgraphNode node, CUgraphNodeType type);
// Null: of a module that we do not know.
[[nodiscard]] const Kernel* kernel_named_by(const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept;
// The launch that a kernel node stands for. The parameters belong to the node.
[[nodiscard]] core::Result<LaunchCall> read_kernel_node(CUgraphNode node);
// What the program asks for with that launch: those attributes of a kernel node that differ from what a plain one has.
[[nodiscard]] std::vector<CUlaunchAttribute> attributes_of(CUgraphNode node);
// All nodes that `node` waits for, directly or not, ready to run alone.
[[nodiscard]] core::Result<CUgraphExec> instantiate_before(const WatchedGraph& graph, std::size_t node);

}  // namespace kerncap::cuda
