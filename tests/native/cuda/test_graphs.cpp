// A graph with a wanted kernel that kernels may launch on the device: that is said, once. Driver and CUPTI are stubs (stub_cuda.hpp).
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
  return kerncap::test::exit_code();
}
