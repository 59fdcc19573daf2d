// In replace mode launches run the variant. Driver and CUPTI are stubs (stub_cuda.hpp); this driver launches what a callback
// has put into its parameters, unless it is told not to. Long because launches and graphs share one driver of stubs.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

#include "stub_cuda.hpp"

using namespace kerncap::test;
using kerncap::capture::ReplaceOutcome;
using kerncap::capture::WordPart;

namespace {

const auto k_captured = handle<CUfunction>(0x2000);
const auto k_variant = handle<CUfunction>(0x9100);
const auto k_module = handle<CUmodule>(0x3000);
const auto k_own_stream = handle<CUstream>(0x8000);
constexpr CUdeviceptr k_bias = 0x7123'4567'0000;
constexpr unsigned k_optin_shared = 100'000;

bool g_honest = true;                    // the driver launches what it is given
std::string g_loaded;                    // the variant's code
int g_loads = 0;
CUfunction g_recorded = nullptr;
std::map<std::pair<CUfunction, CUfunction_attribute>, int> g_attributes;
std::vector<std::string> g_copies;
std::mutex g_stub_mutex;                 // the program's threads call the driver at the same time: guards the two above
// 0: who next asks for the captured kernel's shared memory waits; 1: a thread does so; 2: it goes on.
std::atomic<int> g_asking{-1};

struct Node {
  CUfunction function = k_captured;
  unsigned grid = 4;
  int sets = 0;
};
Node g_node;

CUresult CUDAAPI launch_ours(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream stream,
                             void**, void**) {
  cuLaunchKernel_params parameters{};
  parameters.f = function;
  parameters.hStream = stream;
  Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &parameters, "add");
  call.enter();
  g_recorded = g_honest ? parameters.f : function;
  call.leave();
  return CUDA_SUCCESS;
}

void fill_driver() {
  Driver& table = driver_stub();
  table.cuFuncGetModule = [](CUmodule* module, CUfunction) { return *module = k_module, CUDA_SUCCESS; };
  table.cuModuleLoadDataEx = [](CUmodule* made, const void* code, unsigned, CUjit_option*, void**) {
    ++g_loads;
    g_loaded.assign(static_cast<const char*>(code), 64);
    *made = handle<CUmodule>(0x9000);
    return CUDA_SUCCESS;
  };
  table.cuModuleGetFunction = [](CUfunction* made, CUmodule, const char*) { return *made = k_variant, CUDA_SUCCESS; };
  table.cuModuleGetGlobal_v2 = [](CUdeviceptr* address, std::size_t* bytes, CUmodule module, const char* name) {
    const bool is_const = std::string_view(name).starts_with("scale_by");
    *address = is_const ? (module == k_module ? 0x500 : 0x600) : k_bias;
    *bytes = is_const ? 4 : 16;
    return CUDA_SUCCESS;
  };
  table.cuMemcpyDtoDAsync_v2 = [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    char text[80];
    std::snprintf(text, sizeof text, "%llx %llx %zu %zx", to, from, bytes, reinterpret_cast<std::size_t>(stream));
    const std::lock_guard lock(g_stub_mutex);
    g_copies.emplace_back(text);
    return CUDA_SUCCESS;
  };
  table.cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? static_cast<int>(k_optin_shared)
             : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT          ? 10
                                                                                : 0;
    return CUDA_SUCCESS;
  };
  table.cuOccupancyMaxActiveBlocksPerMultiprocessor = [](int* blocks, CUfunction, int, std::size_t) { return *blocks = 2, CUDA_SUCCESS; };
  g_attributes[{k_variant, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK}] = 128;
  g_attributes[{k_variant, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES}] = 1000;
  g_attributes[{k_variant, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}] = 48'000;
  g_attributes[{k_captured, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}] = 49'000;
  table.cuFuncGetAttribute = [](int* value, CUfunction_attribute attribute, CUfunction function) {
    int before = 0;
    if (function == k_captured && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && g_asking.compare_exchange_strong(before, 1)) {
      while (g_asking.load() != 2) std::this_thread::yield();
    }
    const std::lock_guard lock(g_stub_mutex);
    *value = g_attributes[{function, attribute}];
    return CUDA_SUCCESS;
  };
  table.cuFuncSetAttribute = [](CUfunction function, CUfunction_attribute attribute, int value) {
    const std::lock_guard lock(g_stub_mutex);
    g_attributes[{function, attribute}] = value;
    return CUDA_SUCCESS;
  };
  table.cuStreamCreate = [](CUstream* made, unsigned) { return *made = k_own_stream, CUDA_SUCCESS; };
  table.cuStreamEndCapture = [](CUstream, CUgraph* made) { return *made = handle<CUgraph>(0x6000), CUDA_SUCCESS; };
  table.cuLaunchKernel = launch_ours;
  table.cuGraphGetNodes = [](CUgraph, CUgraphNode* nodes, std::size_t* count) {
    if (nodes != nullptr) *nodes = handle<CUgraphNode>(0x4000);
    return *count = 1, CUDA_SUCCESS;
  };
  table.cuGraphNodeGetType = [](CUgraphNode, CUgraphNodeType* type) { return *type = CU_GRAPH_NODE_TYPE_KERNEL, CUDA_SUCCESS; };
  table.cuGraphKernelNodeGetParams_v2 = [](CUgraphNode, CUDA_KERNEL_NODE_PARAMS* parameters) {
    *parameters = {};
    parameters->func = g_recorded;
    return CUDA_SUCCESS;
  };
  table.cuFuncGetName = [](const char** name, CUfunction) { return *name = "add", CUDA_SUCCESS; };
}

// After the trial, a node of the program's graph.
void fill_graph_calls() {
  Driver& table = driver_stub();
  table.cuGraphKernelNodeGetParams_v2 = [](CUgraphNode, CUDA_KERNEL_NODE_PARAMS* parameters) {
    *parameters = {};
    parameters->func = g_node.function;
    parameters->gridDimX = g_node.grid;
    parameters->gridDimY = parameters->gridDimZ = 1;
    parameters->blockDimX = parameters->blockDimY = parameters->blockDimZ = 1;
    return CUDA_SUCCESS;
  };
  table.cuGraphKernelNodeSetParams_v2 = [](CUgraphNode, const CUDA_KERNEL_NODE_PARAMS* parameters) {
    g_node.function = parameters->func;
    g_node.grid = parameters->gridDimX;
    ++g_node.sets;
    return CUDA_SUCCESS;
  };
}

struct Counts {
  std::uint64_t replaced, kept;
  bool operator==(const Counts&) const = default;
};
// Since the last time.
Counts counted() {
  static Counts s_before{};
  const auto& control = tool()->channel->control();
  const Counts now{control.replaced[0].load(), control.kept[0].load()};
  const Counts since{now.replaced - s_before.replaced, now.kept - s_before.kept};
  s_before = now;
  return since;
}

// A launch of the captured kernel; what the driver is given then.
cuLaunchKernel_params run(unsigned grid, unsigned block, unsigned shared = 0, CUstream stream = handle<CUstream>(0x7000),
                          CUresult status = CUDA_SUCCESS) {
  cuLaunchKernel_params parameters{};
  parameters.f = k_captured;
  parameters.gridDimX = grid;
  parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = block;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.sharedMemBytes = shared;
  parameters.hStream = stream;
  Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &parameters, "add");
  call.enter();
  call.leave(status);
  return parameters;
}

void a_launch_runs_the_variant(Collector& collector) {
  const cuLaunchKernel_params given = run(3, 64, 100);
  CHECK(given.f == k_variant && given.gridDimX == 3 && given.blockDimX == 64 && given.sharedMemBytes == 100);
  CHECK(counted() == Counts{1, 0});
  CHECK(collector.heard().outcomes == std::vector(3, ReplaceOutcome::replaced));   // it has three kernels
  CHECK(run(3, 64, 0, nullptr, CUDA_ERROR_LAUNCH_FAILED).f == k_variant);
  CHECK(counted() == Counts{0, 0});
}

void its_code_uses_the_programs_variables() {
  std::uint64_t whole = 0;
  std::uint32_t halves[2] = {};
  std::memcpy(&whole, &g_loaded[8], sizeof whole);
  std::memcpy(halves, &g_loaded[20], sizeof halves);
  CHECK(whole == k_bias + 4);
  CHECK(halves[0] == static_cast<std::uint32_t>(k_bias) && halves[1] == static_cast<std::uint32_t>(k_bias >> 32));
}

// One failure, with these words.
bool has_told_once(Collector& collector, std::string_view words) {
  const Heard heard = collector.heard();
  return heard.reasons.size() == 1 && heard.reasons[0].find(words) != std::string::npos;
}

void constants_that_cannot_be_copied_are_told(Collector& collector) {
  const auto copies = std::exchange(driver_stub().cuMemcpyDtoDAsync_v2,
                                    [](CUdeviceptr, CUdeviceptr, std::size_t, CUstream) { return CUDA_ERROR_LAUNCH_FAILED; });
  CHECK(run(1, 1, 0, nullptr, CUDA_ERROR_LAUNCH_FAILED).f == k_captured);
  CHECK(collector.heard().reasons.empty() && counted() == Counts{0, 0});
  CHECK(run(1, 1).f == k_captured);
  CHECK(run(1, 1).f == k_captured);
  CHECK(counted() == Counts{0, 2});
  CHECK(has_told_once(collector, "copying the program's constants"));
  driver_stub().cuMemcpyDtoDAsync_v2 = copies;
}

void constants_are_copied_before_each_launch() {
  g_copies.clear();
  (void)run(1, 1);
  (void)run(1, 1, 0, nullptr);
  CHECK(g_copies == std::vector<std::string>{"600 500 4 7000", "600 500 4 0"});
  CHECK(counted() == Counts{2, 0});
}

void what_does_not_fit_runs_the_captured_kernel() {
  CHECK(run(1, 129).f == k_captured);                        // as its registers allow
  CHECK(run(1, 64, 60'000).f == k_captured);                 // nobody has asked for so much
  CHECK(counted() == Counts{0, 2});
  CHECK(run(1, 129, 0, nullptr, CUDA_ERROR_INVALID_VALUE).f == k_captured);   // nor does that
  CHECK(counted() == Counts{0, 0});
  g_attributes[{k_captured, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}] = 99'500;
  g_attributes[{k_captured, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT}] = 50;
  cuFuncSetAttribute_params set{k_captured, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 99'500};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuFuncSetAttribute, &set);
  call.enter();
  call.leave();
  CHECK(run(1, 64, 60'000).f == k_variant);
  CHECK(run(1, 64, k_optin_shared - 1000).f == k_variant);
  CHECK(run(1, 64, k_optin_shared - 999).f == k_captured);   // it has 1,000 bytes of its own
  CHECK((g_attributes[{k_variant, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT}]) == 50);
  CHECK(counted() == Counts{2, 1});
}

// Two threads launch, first of all or after a setting; while one of them carries settings over, the other waits.
void both_threads_launches_have_what_was_set(bool is_first) {
  g_attributes[{k_captured, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}] = 59'000;
  if (!is_first) {
    cuFuncSetAttribute_params set{k_captured, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 59'000};
    Call call(CUPTI_DRIVER_TRACE_CBID_cuFuncSetAttribute, &set);
    call.enter();
    call.leave();
  }
  g_asking = 0;
  std::atomic<bool> has_ended{false};
  CUfunction ran[2] = {};
  std::thread one([&] { ran[0] = run(1, 64, 55'000).f; });
  while (g_asking.load() != 1) std::this_thread::yield();
  std::thread other([&] {
    ran[1] = run(1, 64, 55'000).f;
    has_ended = true;
  });
  for (int i = 0; i < 200 && !has_ended; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  g_asking = 2;
  one.join();
  other.join();
  CHECK(ran[0] == k_variant && ran[1] == k_variant);
  CHECK(counted() == Counts{2, 0});
}

void a_cooperative_launch_has_all_blocks_at_once() {
  for (const unsigned grid : {20u, 21u}) {
    cuLaunchCooperativeKernel_params parameters{};
    parameters.f = k_captured;
    parameters.gridDimX = grid;
    parameters.gridDimY = parameters.gridDimZ = parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
    Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, &parameters, "add");
    call.enter();
    call.leave();
    CHECK(parameters.f == (grid == 20 ? k_variant : k_captured));
  }
  CHECK(counted() == Counts{1, 1});
}

void a_recording_keeps_the_captured_kernel() {
  driver_stub().cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    return *status = CU_STREAM_CAPTURE_STATUS_ACTIVE, CUDA_SUCCESS;
  };
  CHECK(run(1, 1).f == k_captured);
  driver_stub().cuStreamIsCapturing = NoOp<decltype(Driver::cuStreamIsCapturing)>::call;
  CHECK(counted() == Counts{0, 0});
}

void other_code_keeps_its_kernel(Collector& collector, std::string& cubin) {
  std::string other = cubin;
  other.push_back('\0');
  const std::uint32_t module = load_cubin(other);
  CHECK(collector.heard().outcomes.back() == ReplaceOutcome::other_code);
  driver_stub().cuFuncGetModule = [](CUmodule* handle_of, CUfunction) { return *handle_of = handle<CUmodule>(0x3100), CUDA_SUCCESS; };
  cuLaunchKernel_params parameters{};
  parameters.f = handle<CUfunction>(0x2100);
  Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &parameters, "add");
  call.enter();
  call.leave();
  CHECK(parameters.f == handle<CUfunction>(0x2100));
  CHECK(counted() == Counts{0, 0});
  driver_stub().cuFuncGetModule = [](CUmodule* handle_of, CUfunction) { return *handle_of = k_module, CUDA_SUCCESS; };
  unload_cubin(module);
}

void a_module_that_comes_again_has_the_variant_again(std::uint32_t module, std::string& cubin) {
  const int loads = g_loads;
  unload_cubin(module);
  load_cubin(cubin);
  CHECK(run(1, 1).f == k_variant);
  CHECK(g_loads == loads);
  CHECK(counted() == Counts{1, 0});
}

void in_the_end_of_its_context_all_is_gone(std::string& cubin) {
  const int loads = g_loads;
  show_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, k_context);
  show_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, k_context);
  load_cubin(cubin);
  CHECK(run(1, 1).f == k_variant);
  CHECK(g_loads == loads + 1);
  CHECK(counted() == Counts{1, 0});
}

CUgraphExec instantiate(CUresult status, CUfunction meanwhile, unsigned grid) {
  CUgraphExec executable = handle<CUgraphExec>(0x5000);
  cuGraphInstantiateWithFlags_params parameters{&executable, handle<CUgraph>(0x6100), 0};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags, &parameters);
  call.enter();
  CHECK(g_node.function == meanwhile && g_node.grid == grid);
  call.leave(status);
  CHECK(g_node.function == k_captured && g_node.grid == 4);
  return executable;
}

void launch(CUgraphExec executable, CUresult status = CUDA_SUCCESS) {
  cuGraphLaunch_params parameters{executable, nullptr};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, &parameters);
  call.enter();
  call.leave(status);
}

void a_graph_has_the_variant(unsigned grid) {
  fill_graph_calls();
  (void)instantiate(CUDA_ERROR_OUT_OF_MEMORY, k_variant, grid);
  launch(handle<CUgraphExec>(0x5000));
  CHECK(counted() == Counts{0, 0});
  const CUgraphExec executable = instantiate(CUDA_SUCCESS, k_variant, grid);
  launch(executable);
  launch(executable);
  launch(executable, CUDA_ERROR_LAUNCH_FAILED);
  CHECK(counted() == Counts{2, 0});
}

// Replacing is switched off while the driver makes a graph executable: instantiate() looks at its node afterwards.
void a_graph_is_as_it_was_where_nothing_is_replaced_any_more(unsigned grid) {
  CUgraphExec executable = handle<CUgraphExec>(0x5100);
  cuGraphInstantiateWithFlags_params parameters{&executable, handle<CUgraph>(0x6100), 0};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags, &parameters);
  call.enter();
  CHECK(g_node.function == k_variant && g_node.grid == grid);
  tool()->own.enabled.store(false);
  call.leave();
  CHECK(g_node.function == k_captured && g_node.grid == 4);
  tool()->own.enabled.store(true);
  launch(executable);
  CHECK(counted() == Counts{0, 0});
}

void nodes_that_cannot_be_set_are_told(Collector& collector, unsigned grid) {
  const auto sets = driver_stub().cuGraphKernelNodeSetParams_v2;
  g_warnings.clear();
  CUgraphExec executable = handle<CUgraphExec>(0x5200);
  cuGraphInstantiateWithFlags_params parameters{&executable, handle<CUgraph>(0x6100), 0};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags, &parameters);
  call.enter();
  CHECK(g_node.function == k_variant && g_node.grid == grid);
  driver_stub().cuGraphKernelNodeSetParams_v2 = [](CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) { return CUDA_ERROR_INVALID_VALUE; };
  call.leave();
  CHECK(times_warned("a node of a CUDA graph of the program's keeps the variant") == 1);
  g_node = {};
  CHECK(collector.heard().reasons.empty());
  launch(instantiate(CUDA_SUCCESS, k_captured, 4));
  launch(instantiate(CUDA_SUCCESS, k_captured, 4));
  CHECK(counted() == Counts{0, 2});
  CHECK(has_told_once(collector, "setting a node of a CUDA graph"));
  CHECK(g_warnings.size() == 1);
  driver_stub().cuGraphKernelNodeSetParams_v2 = sets;
}

// A graph in whose middle nothing could copy constants; a call that names no block.
void graphs_of_a_variant_with_constants_keep_the_captured_kernel() {
  fill_graph_calls();
  launch(instantiate(CUDA_SUCCESS, k_captured, 4));
  CHECK(counted() == Counts{0, 1});
}

void launches_by_cuLaunchGrid_keep_the_captured_kernel() {
  cuLaunchGrid_params parameters{k_captured, 4, 1};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid, &parameters, "add");
  call.enter();
  call.leave();
  CHECK(parameters.f == k_captured);
  CHECK(counted() == Counts{0, 1});
}

// Two modules that differ have the kernel; what the driver says of a function's module fits both. Then one of them goes.
void a_function_that_is_in_doubt_bars_no_other(Collector& collector, std::string& cubin) {
  const auto launch_function = [](std::uintptr_t function, CUmodule module) {
    static CUmodule s_module;
    s_module = module;
    driver_stub().cuFuncGetModule = [](CUmodule* made, CUfunction) { return *made = s_module, CUDA_SUCCESS; };
    cuLaunchKernel_params parameters{};
    parameters.f = handle<CUfunction>(function);
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
    parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
    Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &parameters, "add");
    call.enter();
    call.leave();
    return parameters.f;
  };
  std::string other = cubin;
  other.push_back('\0');
  const std::uint32_t second = load_cubin(other);   // the latest is what is taken where none is certain
  load_cubin(cubin);
  CHECK(launch_function(0x2500, handle<CUmodule>(0x3500)) == handle<CUfunction>(0x2500));
  CHECK(launch_function(0x2500, handle<CUmodule>(0x3500)) == handle<CUfunction>(0x2500));
  CHECK(counted() == Counts{0, 2});
  CHECK(has_told_once(collector, "several modules that differ"));
  unload_cubin(second);
  CHECK(launch_function(0x2600, handle<CUmodule>(0x3500)) == k_variant);
  CHECK(counted() == Counts{1, 0});
}

// A node of an executable, after the program's own call.
void a_node_that_is_set_later_has_it_too(unsigned grid) {
  static CUDA_KERNEL_NODE_PARAMS s_set{};
  driver_stub().cuGraphExecKernelNodeSetParams_v2 = [](CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS* parameters) {
    return s_set = *parameters, CUDA_SUCCESS;
  };
  const auto executable = handle<CUgraphExec>(0x5000);
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = k_captured;
  node.gridDimX = 4;
  node.gridDimY = node.gridDimZ = node.blockDimX = node.blockDimY = node.blockDimZ = 1;
  cuGraphExecKernelNodeSetParams_v2_params parameters{executable, handle<CUgraphNode>(0x4000), &node};
  const auto set = [&] {
    Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2, &parameters);
    call.enter();
    call.leave();
    launch(executable);
  };
  set();
  CHECK(s_set.func == k_variant && s_set.gridDimX == grid && node.func == k_captured);
  CHECK(counted() == Counts{1, 0});
  node.gridDimX = 5;   // not the launch that the variant is for
  set();
  CHECK(counted() == Counts{0, 1});
  for (const unsigned enabled : {0u, 1u}) {
    cuGraphNodeSetEnabled_params switched{executable, handle<CUgraphNode>(0x4000), enabled};
    Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled, &switched);
    call.enter();
    call.leave();
    launch(executable);
    CHECK(counted() == Counts{0, enabled});
  }
}

// Its nodes keep their names, which the graph that it is updated with does not know.
void an_executable_that_is_updated_has_it_again(unsigned grid) {
  const auto executable = handle<CUgraphExec>(0x5000);
  const auto call = [&](CUpti_CallbackId id, const void* parameters) {
    Call made(id, parameters);
    made.enter();
    if (id == CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2) CHECK(g_node.function == k_variant && g_node.grid == grid);
    made.leave();
  };
  cuGraphNodeSetEnabled_params off{executable, handle<CUgraphNode>(0x4000), 0};
  call(CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled, &off);
  driver_stub().cuGraphGetNodes = [](CUgraph, CUgraphNode* nodes, std::size_t* count) {
    if (nodes != nullptr) *nodes = handle<CUgraphNode>(0x4800);
    return *count = 1, CUDA_SUCCESS;
  };
  CUgraphExecUpdateResultInfo info{};
  cuGraphExecUpdate_v2_params update{executable, handle<CUgraph>(0x6200), &info};
  call(CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2, &update);
  CHECK(g_node.function == k_captured);
  launch(executable);
  CHECK(counted() == Counts{0, 0});
  off.isEnabled = 1;
  call(CUPTI_DRIVER_TRACE_CBID_cuGraphNodeSetEnabled, &off);
  launch(executable);
  CHECK(counted() == Counts{1, 0});
}

// Grid 4 becomes grid 2, and the block 8.
void a_variant_has_a_launch_of_its_own() {
  CHECK(run(3, 1).f == k_captured);
  const cuLaunchKernel_params given = run(4, 1, 300);
  CHECK(given.f == k_variant && given.gridDimX == 2 && given.blockDimX == 8 && given.sharedMemBytes == 64);
  const CUlaunchConfig config{.gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1,
                              .sharedMemBytes = 300, .hStream = nullptr, .attrs = nullptr, .numAttrs = 0};
  cuLaunchKernelEx_params parameters{&config, k_captured, nullptr, nullptr};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, &parameters, "add");
  call.enter();
  CHECK(parameters.f == k_variant && parameters.config->gridDimX == 2 && parameters.config->sharedMemBytes == 64);
  CHECK(config.gridDimX == 4);   // the program's
  call.leave();
  CHECK(counted() == Counts{2, 1});
}

void a_driver_that_launches_something_else_is_found_out(Collector& collector) {
  CHECK(run(1, 1).f == k_captured);
  CHECK(run(1, 1).f == k_captured);
  CHECK(counted() == Counts{0, 2});
  CHECK(has_told_once(collector, "does not launch what is put"));
}

// The trial gives no answer then: the next launch tries again.
void a_trial_that_the_driver_refuses_is_told(Collector& collector) {
  const auto makes_streams = std::exchange(driver_stub().cuStreamCreate, [](CUstream*, unsigned) { return CUDA_ERROR_OUT_OF_MEMORY; });
  CHECK(run(1, 1, 0, nullptr, CUDA_ERROR_OUT_OF_MEMORY).f == k_captured);   // nor does the program's launch run
  CHECK(collector.heard().reasons.empty() && counted() == Counts{0, 0});
  CHECK(run(1, 1).f == k_captured);
  CHECK(run(1, 1).f == k_captured);
  CHECK(counted() == Counts{0, 2});
  CHECK(has_told_once(collector, "could not be tried: making a stream"));
  driver_stub().cuStreamCreate = makes_streams;
  driver_stub().cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**,
                                    void**) { return CUDA_ERROR_INVALID_VALUE; };
  CHECK(run(1, 1).f == k_captured);
  CHECK(counted() == Counts{0, 1});
  driver_stub().cuLaunchKernel = launch_ours;
  CHECK(run(1, 1).f == k_variant);
  CHECK(counted() == Counts{1, 0});
  CHECK(has_told_once(collector, "could not be tried: making a stream"));
}

void a_variant_that_does_not_load_leaves_the_captured_kernel(Collector& collector) {
  driver_stub().cuModuleLoadDataEx = [](CUmodule*, const void*, unsigned, CUjit_option*, void**) { return CUDA_ERROR_INVALID_IMAGE; };
  CHECK(run(1, 1).f == k_captured);
  CHECK(run(1, 1).f == k_captured);
  CHECK(counted() == Counts{0, 2});
  CHECK(has_told_once(collector, "loading the variant"));
  fill_graph_calls();
  launch(instantiate(CUDA_SUCCESS, k_captured, 4));
  CHECK(counted() == Counts{0, 1});
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 2);
  const std::string_view way = argc > 2 ? argv[2] : "";
  const bool has_own_launch = way == "--own-launch";
  g_honest = way != "--ignored";
  std::string path = "/tmp/kerncap-variant-XXXXXX";
  const int made = ::mkstemp(path.data());
  CHECK(::write(made, std::string(64, '-').data(), 64) == 64);
  kerncap::capture::Rule rule{};
  if (has_own_launch) rule.grid_blocks = {4, 0, 0};
  Collector& collector = Collector::start(rule, 5000, 0, kerncap::capture::Mode::replace);
  messages::Replacement replacement{.variant = path, .symbol = "add", .captured = argv[1]};
  replacement.dynamic_group_bytes = kerncap::capture::k_no_bytes;
  if (has_own_launch) {
    replacement.grid_blocks = {2, 1, 1};
    replacement.block_work_items = {8, 1, 1};
    replacement.dynamic_group_bytes = 64;
  }
  std::vector<messages::ProgramVariable> variables;
  if (way.empty()) {
    variables.push_back({.name = "bias", .variant_name = "bias_2", .size_bytes = 16, .words = {{8, WordPart::whole, 4}, {20, WordPart::low, 0}}});
    variables.push_back({.name = "bias", .variant_name = "bias_2", .size_bytes = 16, .words = {{24, WordPart::high, 0}}});
    variables.push_back({.name = "scale_by", .variant_name = "scale_by_2", .size_bytes = 4, .flags = kerncap::capture::k_variable_is_const});
  }
  collector.replace_by(replacement, variables);
  start_library(collector);
  fill_driver();
  std::string cubin = read_file(argv[1]);
  const std::uint32_t module = way == "--doubt" ? 0 : load_cubin(cubin);
  if (!g_honest) {
    a_driver_that_launches_something_else_is_found_out(collector);
  } else if (way == "--refused") {
    a_trial_that_the_driver_refuses_is_told(collector);
  } else if (way == "--threads") {
    both_threads_launches_have_what_was_set(true);
  } else if (way == "--doubt") {
    a_function_that_is_in_doubt_bars_no_other(collector, cubin);
  } else if (way == "--unloadable") {
    a_variant_that_does_not_load_leaves_the_captured_kernel(collector);
  } else if (has_own_launch) {
    a_variant_has_a_launch_of_its_own();
    a_graph_has_the_variant(2);
    a_node_that_is_set_later_has_it_too(2);
    an_executable_that_is_updated_has_it_again(2);
    a_graph_is_as_it_was_where_nothing_is_replaced_any_more(2);
    nodes_that_cannot_be_set_are_told(collector, 2);
  } else {
    a_launch_runs_the_variant(collector);
    its_code_uses_the_programs_variables();
    constants_are_copied_before_each_launch();
    constants_that_cannot_be_copied_are_told(collector);
    both_threads_launches_have_what_was_set(false);
    what_does_not_fit_runs_the_captured_kernel();
    a_cooperative_launch_has_all_blocks_at_once();
    a_recording_keeps_the_captured_kernel();
    other_code_keeps_its_kernel(collector, cubin);
    a_module_that_comes_again_has_the_variant_again(module, cubin);
    in_the_end_of_its_context_all_is_gone(cubin);
    launches_by_cuLaunchGrid_keep_the_captured_kernel();
    graphs_of_a_variant_with_constants_keep_the_captured_kernel();
  }
  ::unlink(path.c_str());
  return kerncap::test::exit_code();
}
