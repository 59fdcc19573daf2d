// The graphs that conditional nodes run, which the driver tells only to who adds such a node. No driver call is made here.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cuda/cuda_headers.hpp"

namespace kerncap::cuda {

class GraphBodies {
 public:
  // Any call: false when it is none that adds or removes nodes.
  bool track(CUpti_CallbackId call, const CUpti_CallbackData& data);
  void added(CUgraph graph, CUgraphNode node, std::span<const CUgraph> bodies);
  // The node, or all nodes of the graph, are going, and the bodies with them.
  void node_gone(CUgraphNode node);
  void graph_gone(CUgraph graph);
  // None: nobody told us.
  [[nodiscard]] std::optional<std::vector<CUgraph>> of(CUgraphNode node) const;

 private:
  struct Conditional {
    CUgraph graph;
    std::vector<CUgraph> bodies;
  };
  void drop(CUgraph graph);              // with the lock held

  mutable std::mutex m_mutex;
  std::map<CUgraphNode, Conditional> m_conditionals;
};

}  // namespace kerncap::cuda
