// What is said, once, of graphs in which a wanted kernel is not seen: those that kernels may launch on the device, and those into which it
// was put later. Driver and CUPTI are stubs (stub_cuda.hpp).
#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

cuuint64_t g_flags = 0;

// A graph is one kernel node.
void fill_graph_calls() {
  Driver& table = driver_stub();
  table.cuGraphGetNodes = [](CUgraph, CUgraphNode* nodes, std::size_t* count) {
    if (nodes != nullptr) *nodes = handle<CUgraphNode>(0x4000);
    *count = 1;
    return CUDA_SUCCESS;
  };
  table.cuGraphNodeGetType = [](CUgraphNode, CUgraphNodeType* type) {
    *type = CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
  };
  table.cuGraphKernelNodeGetParams_v2 = [](CUgraphNode, CUDA_KERNEL_NODE_PARAMS* parameters) {
    *parameters = {};
    parameters->func = handle<CUfunction>(0x2000);
    return CUDA_SUCCESS;
  };
  table.cuFuncGetName = [](const char** name, CUfunction) {
    *name = "add";
    return CUDA_SUCCESS;
  };
  table.cuGraphExecGetFlags = [](CUgraphExec, cuuint64_t* flags) {
    *flags = g_flags;
    return CUDA_SUCCESS;
  };
}

std::size_t warnings_with(cuuint64_t flags) {
  g_warnings.clear();
  g_flags = flags;
  CUgraphExec executable = handle<CUgraphExec>(0x5000);
  cuGraphInstantiateWithFlags_params parameters{&executable, handle<CUgraph>(0x6000), flags};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags, &parameters);
  call.enter();
  call.leave();
  CHECK(tool()->graphs.find(executable) != nullptr);
  return g_warnings.size();
}

// Of an executable that was seen with no kernel that is wanted, or not at all.
std::size_t warnings_when_a_node_gets(CUgraphExec executable, CUfunction function) {
  g_warnings.clear();
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = function;
  cuGraphExecKernelNodeSetParams_v2_params parameters{executable, handle<CUgraphNode>(0x4000), &node};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2, &parameters);
  call.enter();
  call.leave();
  return g_warnings.size();
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  start_library({});
  fill_graph_calls();
  std::string cubin = read_file(argv[1]);
  load_cubin(cubin);
  CHECK(warnings_with(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0);
  CHECK(warnings_with(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) == 1);
  CHECK(g_warnings.size() == 1 && g_warnings[0].find("kernels can launch on the device") != std::string::npos);
  CHECK(warnings_with(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) == 0);
  const auto wanted = handle<CUfunction>(0x2000);
  CHECK(warnings_when_a_node_gets(handle<CUgraphExec>(0x5000), wanted) == 0);   // a copy follows
  CHECK(warnings_when_a_node_gets(handle<CUgraphExec>(0x7000), wanted) == 1);
  CHECK(g_warnings.size() == 1 && g_warnings[0].find("took another's place in a CUDA graph") != std::string::npos);
  CHECK(warnings_when_a_node_gets(handle<CUgraphExec>(0x7000), wanted) == 0);   // it is said once
  return kerncap::test::exit_code();
}
