// Handles of what is gone must not be given to the driver: it would follow them.
#include "cuda/graph_bodies.hpp"

#include <algorithm>

namespace kerncap::cuda {

namespace {

std::span<const CUgraph> bodies_of(const CUgraphNodeParams& parameters) noexcept {
  if (parameters.type != CU_GRAPH_NODE_TYPE_CONDITIONAL || parameters.conditional.phGraph_out == nullptr) return {};
  return {parameters.conditional.phGraph_out, parameters.conditional.size};
}

}  // namespace

bool GraphBodies::track(CUpti_CallbackId call, const CUpti_CallbackData& data) {
  const bool entry = data.callbackSite == CUPTI_API_ENTER;
  const auto add = [&](const auto& made) {
    if (entry || *static_cast<const CUresult*>(data.functionReturnValue) != CUDA_SUCCESS) return;
    if (const auto bodies = bodies_of(*made.nodeParams); !bodies.empty()) added(made.hGraph, *made.phGraphNode, bodies);
  };
  switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuGraphAddNode:
      add(*static_cast<const cuGraphAddNode_params*>(data.functionParams));
      return true;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphAddNode_v2:
      add(*static_cast<const cuGraphAddNode_v2_params*>(data.functionParams));
      return true;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphDestroyNode:
      if (entry) node_gone(static_cast<const cuGraphDestroyNode_params*>(data.functionParams)->hNode);
      return true;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphDestroy:
      if (entry) graph_gone(static_cast<const cuGraphDestroy_params*>(data.functionParams)->hGraph);
      return true;
    default:
      return false;
  }
}

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
