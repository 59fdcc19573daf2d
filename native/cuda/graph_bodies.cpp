// Handles of what is gone must not be given to the driver: it would follow them.
#include "cuda/graph_bodies.hpp"

#include <algorithm>

namespace kerncap::cuda {

void GraphBodies::added(CUgraph graph, CUgraphNode node, std::span<const CUgraph> bodies) {
  const std::lock_guard lock(m_mutex);
  m_conditionals[node] = {graph, {bodies.begin(), bodies.end()}};
}

void GraphBodies::node_gone(CUgraphNode node) {
  const std::lock_guard lock(m_mutex);
  const auto found = m_conditionals.find(node);
  if (found == m_conditionals.end()) return;
  const std::vector<CUgraph> bodies = std::move(found->second.bodies);
  m_conditionals.erase(found);
  for (const CUgraph body : bodies) drop(body);
}

void GraphBodies::graph_gone(CUgraph graph) {
  const std::lock_guard lock(m_mutex);
  drop(graph);
}

void GraphBodies::drop(CUgraph graph) {
  for (;;) {
    const auto found = std::find_if(m_conditionals.begin(), m_conditionals.end(),
                                    [graph](const auto& item) { return item.second.graph == graph; });
    if (found == m_conditionals.end()) return;
    const std::vector<CUgraph> bodies = std::move(found->second.bodies);
    m_conditionals.erase(found);
    for (const CUgraph body : bodies) drop(body);
  }
}

std::optional<std::vector<CUgraph>> GraphBodies::of(CUgraphNode node) const {
  const std::lock_guard lock(m_mutex);
  const auto found = m_conditionals.find(node);
  if (found == m_conditionals.end()) return std::nullopt;
  return found->second.bodies;
}

}  // namespace kerncap::cuda
