// Reads and takes apart copies of the program's graphs; never touches the program's own.
#include "cuda/graphs.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "cuda/api.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {

std::vector<bool> ancestors_of(const std::vector<WatchedGraph::Node>& nodes, std::size_t node) {
  std::vector<bool> found(nodes.size());
  for (const std::size_t each : nodes[node].before) found[each] = true;
  for (std::size_t i = node; i-- > 0;) {
    if (!found[i]) continue;
    for (const std::size_t each : nodes[i].before) found[each] = true;
  }
  return found;
}

std::vector<CUgraph> graphs_within(CUgraphNode node, CUgraphNodeType type) {
  if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraph child = nullptr;
    if (driver().cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) return {child};
  }
  if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    if (auto bodies = tool()->graph_bodies.of(node)) return std::move(*bodies);
    static std::once_flag s_said;
    std::call_once(s_said, [] {
      warn("a conditional node of a CUDA graph was added by no call that we know: kernels in its bodies are not seen");
    });
  }
  return {};
}

namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

Result<std::vector<CUgraphNode>> nodes_of(CUgraph graph) {
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

// In what order they were made says nothing of the order in which nodes run.
Result<std::vector<std::pair<CUgraphNode, CUgraphNode>>> edges_of(CUgraph graph) {
  std::size_t count = 0;
  Result<void> asked = checked("reading a graph", driver().cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &count));
  if (!asked) return asked.error();
  std::vector<CUgraphNode> from(count);
  std::vector<CUgraphNode> to(count);
  std::vector<CUgraphEdgeData> kinds(count);
  asked = checked("reading a graph", driver().cuGraphGetEdges_v2(graph, from.data(), to.data(), kinds.data(), &count));
  if (!asked) return asked.error();
  std::vector<std::pair<CUgraphNode, CUgraphNode>> edges;
  for (std::size_t i = 0; i < count; ++i) edges.emplace_back(from[i], to[i]);
  return edges;
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
  return kernel_named_by(parameters);
}

// The nodes of a graph, each behind those that it waits for; otherwise in the order in which they were made.
Result<std::vector<WatchedGraph::Node>> read_nodes(CUgraph graph) {
  const Result<std::vector<CUgraphNode>> made = nodes_of(graph);
  if (!made) return made.error();
  const auto edges = edges_of(graph);
  if (!edges) return edges.error();
  std::map<CUgraphNode, std::size_t> number;
  for (const CUgraphNode node : made.value()) number.emplace(node, number.size());
  std::vector<std::vector<std::size_t>> before(number.size());
  std::vector<std::vector<std::size_t>> behind(number.size());
  for (const auto& [from, to] : edges.value()) {
    before[number.at(to)].push_back(number.at(from));
    behind[number.at(from)].push_back(number.at(to));
  }
  std::vector<std::size_t> waits_for(number.size());
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < before.size(); ++i) {
    waits_for[i] = before[i].size();
    if (waits_for[i] == 0) ready.insert(i);
  }
  std::vector<std::size_t> place(number.size());
  std::vector<WatchedGraph::Node> nodes;
  while (!ready.empty()) {
    const std::size_t next = *ready.begin();
    ready.erase(ready.begin());
    place[next] = nodes.size();
    WatchedGraph::Node node{made.value()[next], made.value()[next], type_of(made.value()[next]), {}};
    for (const std::size_t each : before[next]) node.before.push_back(place[each]);
    nodes.push_back(std::move(node));
    for (const std::size_t each : behind[next]) {
      if (--waits_for[each] == 0) ready.insert(each);
    }
  }
  return nodes;
}

std::string why_not(const std::vector<WatchedGraph::Node>& nodes, std::size_t node) {
  const std::vector<bool> before = ancestors_of(nodes, node);
  for (std::size_t i = 0; i < node; ++i) {
    const char* what = before[i] ? not_repeatable(nodes[i].type) : nullptr;
    if (what != nullptr) return std::string("it is in a CUDA graph behind ") + what;
  }
  return {};
}

bool allocates(const std::vector<WatchedGraph::Node>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const WatchedGraph::Node& node) {
    return node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node.type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  });
}

void add_wanted(WatchedGraph& watched, std::size_t place, CUgraphNode node, const std::string& refusal) {
  const Kernel* kernel = kernel_of(node);
  if (kernel == nullptr || kernel->rule == k_no_rule) return;
  Result<LaunchCall> read = read_kernel_node(node);
  if (!read) return;
  LaunchCall shape;
  std::copy_n(read.value().grid_blocks, 3, shape.grid_blocks);
  std::copy_n(read.value().block, 3, shape.block);
  watched.wanted.push_back({place, *kernel, shape, refusal});
}

// What is wanted in a graph that is one node of another.
void add_wanted_within(WatchedGraph& watched, std::size_t place, const WatchedGraph::Node& outer) {
  const char* where = outer.type == CU_GRAPH_NODE_TYPE_GRAPH ? "it is in a child graph of a CUDA graph"
                                                             : "it is in the body of a conditional node of a CUDA graph";
  for (const CUgraph graph : graphs_within(outer.node, outer.type)) {
    const Result<std::vector<WatchedGraph::Node>> nodes = read_nodes(graph);
    if (!nodes) continue;
    for (const WatchedGraph::Node& each : nodes.value()) {
      if (each.type == CU_GRAPH_NODE_TYPE_KERNEL) add_wanted(watched, place, each.node, where);
      add_wanted_within(watched, place, each);
    }
  }
}

// Kernels may launch such a graph, and no call of the program's shows when they do.
void warn_of_launches_on_the_device(CUgraphExec executable) noexcept {
  cuuint64_t flags = 0;
  if (driver().cuGraphExecGetFlags == nullptr || driver().cuGraphExecGetFlags(executable, &flags) != CUDA_SUCCESS) return;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) == 0) return;
  static std::once_flag s_said;
  std::call_once(s_said, [] {
    warn("a kernel that is asked for is in a CUDA graph that kernels can launch on the device: such launches of it are not seen");
  });
}

}  // namespace

const Kernel* kernel_named_by(const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept {
  const auto function = parameters.func != nullptr ? parameters.func : reinterpret_cast<CUfunction>(parameters.kern);
  const Kernel* kernel = tool()->functions.find(function);
  CUcontext context = parameters.ctx;
  if (context == nullptr) driver().cuCtxGetCurrent(&context);
  return kernel != nullptr && kernel->is_of(context) ? kernel : tool()->modules.resolve(function, name_of(parameters), context);
}

WatchedGraph::~WatchedGraph() {
  if (copy != nullptr) driver().cuGraphDestroy(copy);
}

void Graphs::instantiated(CUgraphExec executable, CUgraph graph) noexcept {
  destroyed(executable);  // one that had the same address: it may have gone without a call that we saw
  watch(executable, graph);
}

void Graphs::updated(CUgraphExec executable, CUgraph graph) noexcept {
  {
    const std::lock_guard lock(m_mutex);
    m_watched.erase(executable);
  }
  watch(executable, graph);
}

void Graphs::watch(CUgraphExec executable, CUgraph graph) noexcept {
  const RelaxedMode relaxed;
  Result<std::vector<WatchedGraph::Node>> nodes = read_nodes(graph);
  if (!nodes) return;
  auto watched = std::make_shared<WatchedGraph>();
  watched->nodes = std::move(nodes.value());
  for (std::size_t i = 0; i < watched->nodes.size(); ++i) {
    const WatchedGraph::Node& node = watched->nodes[i];
    if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) add_wanted(*watched, i, node.node, {});
    add_wanted_within(*watched, i, node);
  }
  if (watched->wanted.empty()) return;
  warn_of_launches_on_the_device(executable);
  const CUresult cloned = driver().cuGraphClone(&watched->copy, graph);
  for (WatchedGraph::Wanted& item : watched->wanted) {
    if (item.refusal.empty()) item.refusal = why_not(watched->nodes, item.node);
    if (item.refusal.empty() && cloned != CUDA_SUCCESS) {
      item.refusal = allocates(watched->nodes) ? "it is in a CUDA graph that allocates memory of its own, and cannot be copied"
                                               : describe("it is in a CUDA graph that cannot be copied", cloned);
    }
  }
  for (WatchedGraph::Node& node : watched->nodes) {
    CUgraphNode twin = nullptr;
    if (watched->copy != nullptr) driver().cuGraphNodeFindInClone(&twin, node.node, watched->copy);
    node.node = twin;
  }
  const std::lock_guard lock(m_mutex);
  watched->was_changed = m_switched.contains(executable);
  m_watched[executable] = std::move(watched);
}

bool Graphs::node_changed(CUgraphExec executable, CUgraphNode node,
                          const std::function<CUresult(CUgraphNode)>& set) noexcept {
  const auto watched = find(executable);
  if (watched == nullptr) return false;
  std::vector<WatchedGraph::Node>& nodes = watched->nodes;
  const auto found = std::find_if(nodes.begin(), nodes.end(), [node](const auto& each) { return each.original == node; });
  // A graph that it was updated with lends its parameters alone: its nodes have other names than the program's.
  if (found == nodes.end() || found->node == nullptr || set(found->node) != CUDA_SUCCESS) {
    watched->was_changed = true;
    return true;
  }
  if (found->type != CU_GRAPH_NODE_TYPE_KERNEL) return true;
  const auto place = static_cast<std::size_t>(found - nodes.begin());
  std::erase_if(watched->wanted, [place](const WatchedGraph::Wanted& item) { return item.node == place; });
  add_wanted(*watched, place, found->node, why_not(nodes, place));
  std::stable_sort(watched->wanted.begin(), watched->wanted.end(),
                   [](const auto& a, const auto& b) { return a.node < b.node; });
  return true;
}

void Graphs::switched(CUgraphExec executable) noexcept {
  changed(executable);
  const std::lock_guard lock(m_mutex);
  m_switched.insert(executable);
}

void Graphs::changed(CUgraphExec executable) noexcept {
  if (const auto watched = find(executable)) watched->was_changed.store(true);
}

void Graphs::destroyed(CUgraphExec executable) noexcept {
  const std::lock_guard lock(m_mutex);
  m_watched.erase(executable);
  m_switched.erase(executable);
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
  launch.context = from.ctx;
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
  return launch;
}

namespace {

// A node for the same kernel of which nothing was asked: the driver's defaults are not all zeroes.
class PlainTwin {
 public:
  explicit PlainTwin(CUgraphNode node) noexcept {
    CUDA_KERNEL_NODE_PARAMS parameters{};
    m_is_made = driver().cuGraphKernelNodeGetParams_v2(node, &parameters) == CUDA_SUCCESS &&
                driver().cuGraphCreate(&m_graph, 0) == CUDA_SUCCESS &&
                driver().cuGraphAddKernelNode_v2(&m_node, m_graph, nullptr, 0, &parameters) == CUDA_SUCCESS;
  }
  ~PlainTwin() {
    if (m_graph != nullptr) driver().cuGraphDestroy(m_graph);
  }
  PlainTwin(const PlainTwin&) = delete;
  PlainTwin& operator=(const PlainTwin&) = delete;
  // All zeroes where nobody can tell.
  [[nodiscard]] CUlaunchAttributeValue value(CUlaunchAttributeID id) const noexcept {
    CUlaunchAttributeValue value{};
    if (!m_is_made || driver().cuGraphKernelNodeGetAttribute(m_node, id, &value) != CUDA_SUCCESS) return {};
    return value;
  }

 private:
  CUgraph m_graph = nullptr;
  CUgraphNode m_node = nullptr;
  bool m_is_made = false;
};

}  // namespace

std::vector<CUlaunchAttribute> attributes_of(CUgraphNode node) {
  constexpr CUlaunchAttributeID k_of_nodes[] = {
      CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
      CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
      CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
      CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
      CU_LAUNCH_ATTRIBUTE_PRIORITY,
      CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
      CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
      CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
      CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
  };
  const PlainTwin twin(node);
  std::vector<CUlaunchAttribute> attributes;
  for (const CUlaunchAttributeID id : k_of_nodes) {
    CUlaunchAttribute attribute{};
    attribute.id = id;
    // A driver does not know those that are newer than it.
    if (driver().cuGraphKernelNodeGetAttribute(node, id, &attribute.value) != CUDA_SUCCESS) continue;
    const CUlaunchAttributeValue usual = twin.value(id);
    if (!std::ranges::equal(attribute.value.pad, usual.pad)) attributes.push_back(attribute);
  }
  return attributes;
}

Result<CUgraphExec> instantiate_before(const WatchedGraph& graph, std::size_t node) {
  CUgraph part = nullptr;
  if (Result<void> cloned = checked("copying a graph", driver().cuGraphClone(&part, graph.copy)); !cloned) {
    return cloned.error();
  }
  Result<void> made;
  const std::vector<bool> before = ancestors_of(graph.nodes, node);
  for (std::size_t i = 0; i < graph.nodes.size() && made; ++i) {
    if (before[i]) continue;
    CUgraphNode twin = nullptr;
    made = checked("taking a graph apart", driver().cuGraphNodeFindInClone(&twin, graph.nodes[i].node, part));
    if (made) made = checked("taking a graph apart", driver().cuGraphDestroyNode(twin));
  }
  CUgraphExec executable = nullptr;
  if (made) made = checked("making a graph executable", driver().cuGraphInstantiateWithFlags(&executable, part, 0));
  driver().cuGraphDestroy(part);
  if (!made) return made.error();
  return executable;
}

}  // namespace kerncap::cuda
