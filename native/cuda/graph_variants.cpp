// Runs on the program's threads, inside its calls about graphs. The driver's own functions do all of it: a node's function is
// set, and set back.
#include "cuda/graph_variants.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "cuda/api.hpp"
#include "cuda/graphs.hpp"
#include "cuda/tool.hpp"

namespace kerncap::cuda {
namespace {

LaunchCall read(const CUDA_KERNEL_NODE_PARAMS& from) noexcept {
  LaunchCall launch;
  launch.context = from.ctx;
  launch.function = from.func != nullptr ? from.func : reinterpret_cast<CUfunction>(from.kern);
  read_shape(from, launch);
  return launch;
}

// What the node itself was told, beside its parameters.
void read_attributes(CUgraphNode node, LaunchCall& launch) noexcept {
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
}

CUDA_KERNEL_NODE_PARAMS with(const Variant& variant, const VariantLaunch& launch, CUDA_KERNEL_NODE_PARAMS parameters) noexcept {
  parameters.func = variant.function;
  parameters.kern = nullptr;
  parameters.gridDimX = launch.grid_blocks[0];
  parameters.gridDimY = launch.grid_blocks[1];
  parameters.gridDimZ = launch.grid_blocks[2];
  parameters.blockDimX = launch.block[0];
  parameters.blockDimY = launch.block[1];
  parameters.blockDimZ = launch.block[2];
  parameters.sharedMemBytes = launch.dynamic_shared_bytes;
  return parameters;
}

// The kernel of a node. Null: it is not replaced.
const Kernel* replaced_in(const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept {
  const Kernel* kernel = kernel_named_by(parameters);
  return kernel == nullptr || kernel->rule == k_no_rule ? nullptr : kernel;
}

// `variant` null: there is none, and the collector has been told why.
std::optional<VariantLaunch> fit_in_graph(const Variant* variant, const LaunchCall& asked) noexcept {
  // Constants change between two launches of a graph, and within one: nothing copies them there.
  return variant != nullptr && variant->constants.empty() ? fit(*variant, asked) : std::nullopt;
}

// Tells once where a node could not be given the variant.
bool is_set(const Kernel& kernel, Variant& variant, CUresult status) noexcept {
  if (status == CUDA_SUCCESS) return true;
  if (!variant.is_told.exchange(true)) {
    tool()->replacements.fail(kernel.rule, kernel.module, describe("setting a node of a CUDA graph", status));
  }
  return false;
}

}  // namespace

GraphVariants::Call& GraphVariants::this_call() noexcept {
  static thread_local Call t_call;
  return t_call;
}

void GraphVariants::lend(CUgraph graph, CUgraphNode outer, Call& call) noexcept {
  std::size_t count = 0;
  if (driver().cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) return;
  std::vector<CUgraphNode> nodes(count);
  if (driver().cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return;
  nodes.resize(std::min(count, nodes.size()));
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    driver().cuGraphNodeGetType(node, &type);
    const CUgraphNode where = outer != nullptr ? outer : node;
    for (const CUgraph inner : graphs_within(node, type)) lend(inner, where, call);
    CUDA_KERNEL_NODE_PARAMS parameters{};
    if (type != CU_GRAPH_NODE_TYPE_KERNEL || driver().cuGraphKernelNodeGetParams_v2(node, &parameters) != CUDA_SUCCESS) continue;
    const Kernel* const kernel = replaced_in(parameters);
    if (kernel == nullptr) continue;
    Variant* const variant = tool()->replacements.of(*kernel);
    LaunchCall asked = read(parameters);
    read_attributes(node, asked);
    Node& made = call.nodes.emplace_back(Node{where, node, kernel->rule, false, true, asked});
    const std::optional<VariantLaunch> launch = fit_in_graph(variant, asked);
    if (!launch) continue;
    const CUDA_KERNEL_NODE_PARAMS wanted = with(*variant, *launch, parameters);
    made.is_replaced = is_set(*kernel, *variant, driver().cuGraphKernelNodeSetParams_v2(node, &wanted));
    if (made.is_replaced) call.lent.push_back({node, parameters});
  }
}

// The driver has copied a node's arguments: where they lie now, the node itself says.
void GraphVariants::put_back(Call& call) noexcept {
  for (const Lent& lent : call.lent) {
    CUDA_KERNEL_NODE_PARAMS now{};
    CUresult status = driver().cuGraphKernelNodeGetParams_v2(lent.node, &now);
    if (status == CUDA_SUCCESS) {
      CUDA_KERNEL_NODE_PARAMS before = lent.before;
      before.kernelParams = now.kernelParams;
      before.extra = now.extra;
      status = driver().cuGraphKernelNodeSetParams_v2(lent.node, &before);
    }
    if (status != CUDA_SUCCESS) warn(describe("a node of a CUDA graph of the program's keeps the variant", status));
  }
  call.lent.clear();
}

void GraphVariants::begin(CUgraph graph) noexcept {
  Call& call = this_call();
  call = {};
  const RelaxedMode relaxed;
  lend(graph, nullptr, call);
}

void GraphVariants::made(CUgraphExec executable) noexcept {
  Call& call = this_call();
  const RelaxedMode relaxed;
  put_back(call);
  const std::lock_guard lock(m_mutex);
  if (call.nodes.empty()) {
    m_executables.erase(executable);
  } else {
    m_executables[executable] = std::exchange(call.nodes, {});
  }
}

void GraphVariants::updated(CUgraphExec executable) noexcept {
  {
    const std::lock_guard lock(m_mutex);
    std::vector<Node>& now = this_call().nodes;
    const auto known = m_executables.find(executable);
    // The driver pairs the nodes of both in the order in which they were made.
    if (known != m_executables.end() && known->second.size() == now.size()) {
      for (std::size_t i = 0; i < now.size(); ++i) {
        now[i].outer = known->second[i].outer;
        now[i].node = known->second[i].node;
        now[i].is_enabled = known->second[i].is_enabled;
      }
    }
  }
  made(executable);
}

void GraphVariants::child_made(CUgraphExec executable, CUgraphNode node) noexcept {
  Call& call = this_call();
  const RelaxedMode relaxed;
  put_back(call);
  const std::lock_guard lock(m_mutex);
  std::vector<Node>& known = m_executables[executable];
  std::erase_if(known, [node](const Node& each) { return each.outer == node; });
  for (Node& each : call.nodes) {
    each.outer = node;
    known.push_back(each);
  }
  call.nodes.clear();
}

void GraphVariants::failed() noexcept {
  const RelaxedMode relaxed;
  put_back(this_call());
  this_call().nodes.clear();
}

void GraphVariants::give_up() noexcept {
  if (this_call().lent.empty()) return;
  const Inside inside;
  failed();
}

void GraphVariants::node_set(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& parameters) noexcept {
  const RelaxedMode relaxed;
  std::optional<Node> before;
  {
    const std::lock_guard lock(m_mutex);
    for (const Node& each : m_executables[executable]) {
      if (each.node == node) before = each;
    }
  }
  std::optional<Node> made;
  if (const Kernel* const kernel = replaced_in(parameters); kernel != nullptr) {
    Variant* const variant = tool()->replacements.of(*kernel);
    LaunchCall asked = read(parameters);
    if (before) {   // attributes stay as they are, and the graph that could be asked for them may be gone
      asked.cooperative = before->asked.cooperative;
      std::ranges::copy(before->asked.cluster, asked.cluster);
    }
    made = Node{before ? before->outer : node, node, kernel->rule, false, !before || before->is_enabled, asked};
    if (const std::optional<VariantLaunch> launch = fit_in_graph(variant, asked)) {
      const CUDA_KERNEL_NODE_PARAMS wanted = with(*variant, *launch, parameters);
      made->is_replaced = is_set(*kernel, *variant, driver().cuGraphExecKernelNodeSetParams_v2(executable, node, &wanted));
    }
  }
  const std::lock_guard lock(m_mutex);
  std::vector<Node>& known = m_executables[executable];
  const auto place = std::ranges::find(known, node, &Node::node);
  if (made && place != known.end()) {
    *place = *made;
  } else if (made) {
    known.push_back(*made);
  } else if (place != known.end()) {
    known.erase(place);
  }
}

void GraphVariants::node_enabled(CUgraphExec executable, CUgraphNode node, bool is_enabled) noexcept {
  const std::lock_guard lock(m_mutex);
  const auto known = m_executables.find(executable);
  if (known == m_executables.end()) return;
  for (Node& each : known->second) {
    if (each.node == node) each.is_enabled = is_enabled;
  }
}

void GraphVariants::launched(CUgraphExec executable) noexcept {
  const std::lock_guard lock(m_mutex);
  const auto known = m_executables.find(executable);
  if (known == m_executables.end()) return;
  capture::Control& control = tool()->channel->control();
  for (const Node& node : known->second) {
    if (!node.is_enabled) continue;
    if (node.is_replaced) {
      control.replaced[node.rule].fetch_add(1, std::memory_order_relaxed);
    } else {
      capture::keep_captured(control, node.rule, shape_of(node.asked));
    }
  }
}

void GraphVariants::destroyed(CUgraphExec executable) noexcept {
  const std::lock_guard lock(m_mutex);
  m_executables.erase(executable);
}

}  // namespace kerncap::cuda
