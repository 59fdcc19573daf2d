// Reads and takes apart copies of the program's graphs; never touches the program's own.
#include "cuda/graphs.hpp"

#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

core::Result<std::vector<CUgraphNode>> nodes_of(CUgraph graph) {
  std::size_t count = 0;
  if (Result<void> asked = checked("reading a graph", driver().cuGraphGetNodes(graph, nullptr, &count)); !asked) {
    return asked.error();
  }
  std::vector<CUgraphNode> nodes(count);
  if (Result<void> asked = checked("reading a graph", driver().cuGraphGetNodes(graph, nodes.data(), &count)); !asked) {
    return asked.error();
  }
  nodes.resize(count);
  return nodes;
}

CUgraphNodeType type_of(CUgraphNode node) noexcept {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  driver().cuGraphNodeGetType(node, &type);
  return type;
}

// The nodes that run twice when what stands before a kernel is run to reach it: only what works on memory that is
// put back afterwards.
const char* not_repeatable(CUgraphNodeType type) noexcept {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return nullptr;
    case CU_GRAPH_NODE_TYPE_HOST: return "a host function";
    case CU_GRAPH_NODE_TYPE_GRAPH: return "a child graph";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return "memory that it allocates";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return "a conditional node";
    default: return "a semaphore or another node that cannot run twice";
  }
}

const char* name_of(const CUDA_KERNEL_NODE_PARAMS& node) noexcept {
  const char* name = nullptr;
  if (node.func != nullptr && driver().cuFuncGetName != nullptr) driver().cuFuncGetName(&name, node.func);
  if (name == nullptr && node.kern != nullptr && driver().cuKernelGetName != nullptr) {
    driver().cuKernelGetName(&name, node.kern);
  }
  return name;
}

const Kernel* kernel_of(CUgraphNode node) noexcept {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  if (driver().cuGraphKernelNodeGetParams_v2(node, &parameters) != CUDA_SUCCESS) return nullptr;
  const auto function = parameters.func != nullptr ? parameters.func : reinterpret_cast<CUfunction>(parameters.kern);
  const Kernel* kernel = tool()->functions.find(function);
  return kernel != nullptr ? kernel : tool()->modules.resolve(function, name_of(parameters));
}

}  // namespace

WatchedGraph::~WatchedGraph() {
  if (copy != nullptr) driver().cuGraphDestroy(copy);
}

void Graphs::instantiated(CUgraphExec executable, CUgraph graph) noexcept {
  Result<std::vector<CUgraphNode>> nodes = nodes_of(graph);
  if (!nodes) return;
  auto watched = std::make_shared<WatchedGraph>();
  for (std::size_t i = 0; i < nodes.value().size(); ++i) {
    if (type_of(nodes.value()[i]) != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    const Kernel* kernel = kernel_of(nodes.value()[i]);
    if (kernel != nullptr && kernel->rule != k_no_rule) watched->wanted.push_back({i, *kernel});
  }
  if (watched->wanted.empty()) return;
  for (std::size_t i = 0; i < watched->wanted.back().node && watched->refusal.empty(); ++i) {
    const char* what = not_repeatable(type_of(nodes.value()[i]));
    if (what != nullptr) watched->refusal = std::string("it is in a CUDA graph behind ") + what;
  }
  if (watched->refusal.empty()) {
    const CUresult cloned = driver().cuGraphClone(&watched->copy, graph);
    if (cloned != CUDA_SUCCESS) watched->refusal = describe("it is in a CUDA graph that cannot be copied", cloned);
  }
  for (const CUgraphNode node : nodes.value()) {
    CUgraphNode twin = nullptr;
    if (watched->copy != nullptr) driver().cuGraphNodeFindInClone(&twin, node, watched->copy);
    watched->nodes.push_back(twin);
  }
  const std::lock_guard lock(m_mutex);
  m_watched[executable] = std::move(watched);
}

void Graphs::changed(CUgraphExec executable) noexcept {
  if (const auto watched = find(executable)) {
    watched->refusal = "it is in a CUDA graph that was changed after it had been made executable";
  }
}

void Graphs::destroyed(CUgraphExec executable) noexcept {
  const std::lock_guard lock(m_mutex);
  m_watched.erase(executable);
}

std::shared_ptr<WatchedGraph> Graphs::find(CUgraphExec executable) const noexcept {
  const std::lock_guard lock(m_mutex);
  const auto found = m_watched.find(executable);
  return found == m_watched.end() ? nullptr : found->second;
}

Result<LaunchCall> read_kernel_node(CUgraphNode node) {
  CUDA_KERNEL_NODE_PARAMS from{};
  const CUresult status = driver().cuGraphKernelNodeGetParams_v2(node, &from);
  if (status != CUDA_SUCCESS) return Error{ErrorCode::device, describe("reading a kernel node", status)};
  LaunchCall launch;
  launch.function = from.func != nullptr ? from.func : reinterpret_cast<CUfunction>(from.kern);
  const unsigned grid[3] = {from.gridDimX, from.gridDimY, from.gridDimZ};
  const unsigned block[3] = {from.blockDimX, from.blockDimY, from.blockDimZ};
  for (int axis = 0; axis < 3; ++axis) {
    launch.grid_blocks[axis] = grid[axis];
    launch.block[axis] = block[axis];
  }
  launch.dynamic_shared_bytes = from.sharedMemBytes;
  launch.parameters = from.kernelParams;
  launch.extra = from.extra;
  CUlaunchAttributeValue value{};
  if (driver().cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value) == CUDA_SUCCESS) {
    launch.cooperative = value.cooperative != 0;
  }
  value = {};
  if (driver().cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value) == CUDA_SUCCESS) {
    launch.cluster[0] = value.clusterDim.x;
    launch.cluster[1] = value.clusterDim.y;
    launch.cluster[2] = value.clusterDim.z;
  }
  return launch;
}

Result<CUgraphExec> instantiate_before(const WatchedGraph& graph, std::size_t node) {
  CUgraph part = nullptr;
  if (Result<void> cloned = checked("copying a graph", driver().cuGraphClone(&part, graph.copy)); !cloned) {
    return cloned.error();
  }
  Result<void> made;
  for (std::size_t i = node; i < graph.nodes.size() && made; ++i) {
    CUgraphNode twin = nullptr;
    made = checked("taking a graph apart", driver().cuGraphNodeFindInClone(&twin, graph.nodes[i], part));
    if (made) made = checked("taking a graph apart", driver().cuGraphDestroyNode(twin));
  }
  CUgraphExec executable = nullptr;
  if (made) made = checked("making a graph executable", driver().cuGraphInstantiateWithFlags(&executable, part, 0));
  driver().cuGraphDestroy(part);
  if (!made) return made.error();
  return executable;
}

}  // namespace kerncap::cuda
