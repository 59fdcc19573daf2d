// A kernel of a graph is captured: what that does to the program's memory is undone, and nothing else is. Driver and CUPTI are stubs
// (stub_cuda.hpp); all memory is the host's, and a graph adds one to the word that it is given.
#include <chrono>
#include <cstring>
#include <future>
#include <map>

#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

constexpr std::uint32_t k_wait_ms = 300;
const auto k_executable = handle<CUgraphExec>(0x5000);
const auto k_first = handle<CUgraphNode>(0x4000);
const auto k_second = handle<CUgraphNode>(0x4008);    // the kernel that is wanted
constexpr int k_before = 10;

std::map<CUgraphNode, int*> g_given;                   // to the nodes' kernels
std::map<CUgraphNode, CUcontext> g_contexts;           // of the nodes
std::function<void()> g_when_nodes_run = [] {};
int g_kernels = 0;                                     // that were launched alone

CUdeviceptr address_of(const int* word) { return reinterpret_cast<CUdeviceptr>(word); }

CUresult CUDAAPI node_parameters(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* parameters) {
  static std::map<CUgraphNode, void*> s_parameters;
  s_parameters[node] = &g_given[node];
  *parameters = {};
  parameters->func = handle<CUfunction>(node == k_second ? 0x2000 : 0x2800);
  parameters->ctx = g_contexts[node];
  for (unsigned* size : {&parameters->gridDimX, &parameters->gridDimY, &parameters->gridDimZ, &parameters->blockDimX,
                         &parameters->blockDimY, &parameters->blockDimZ}) {
    *size = 1;
  }
  parameters->kernelParams = &s_parameters[node];
  return CUDA_SUCCESS;
}

void fill_graph_calls() {
  use_host_memory();
  Driver& table = driver_stub();
  table.cuGraphGetNodes = [](CUgraph, CUgraphNode* nodes, std::size_t* count) {
    if (nodes != nullptr) nodes[0] = k_first, nodes[1] = k_second;
    *count = 2;
    return CUDA_SUCCESS;
  };
  table.cuGraphGetEdges_v2 = [](CUgraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData*, std::size_t* count) {
    if (from != nullptr) *from = k_first, *to = k_second;
    *count = 1;
    return CUDA_SUCCESS;
  };
  table.cuGraphNodeGetType = [](CUgraphNode, CUgraphNodeType* type) {
    *type = CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
  };
  table.cuGraphNodeFindInClone = [](CUgraphNode* twin, CUgraphNode node, CUgraph) {
    *twin = node;
    return CUDA_SUCCESS;
  };
  table.cuGraphClone = [](CUgraph* copy, CUgraph) {
    *copy = handle<CUgraph>(0x6100);
    return CUDA_SUCCESS;
  };
  table.cuGraphKernelNodeGetParams_v2 = node_parameters;
  table.cuFuncGetName = [](const char** name, CUfunction function) {
    *name = function == handle<CUfunction>(0x2000) ? "add" : "other";
    return CUDA_SUCCESS;
  };
  table.cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset, std::size_t* size) {
    *offset = 0;
    *size = sizeof(void*);
    return index == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  table.cuGraphLaunch = [](CUgraphExec, CUstream) {
    if (int* word = g_given[k_first]; word != nullptr) ++*word;
    g_when_nodes_run();
    return CUDA_SUCCESS;
  };
  table.cuLaunchKernelEx = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    ++g_kernels;
    return CUDA_SUCCESS;
  };
  table.cuMemGetInfo_v2 = [](std::size_t* free_bytes, std::size_t* total) {
    *free_bytes = *total = std::size_t{100} << 30;
    return CUDA_SUCCESS;
  };
}

// As if the program had made it on a GPU.
int* allocated(unsigned device) {
  static unsigned s_device = 0;
  driver_stub().cuCtxGetDevice = [](CUdevice* current) {
    *current = static_cast<CUdevice>(s_device);
    return CUDA_SUCCESS;
  };
  auto* word = static_cast<int*>(std::aligned_alloc(4096, 4096));
  CUdeviceptr address = address_of(word);
  cuMemAlloc_v2_params parameters{&address, 4096};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &parameters);
  s_device = device;
  call.enter();
  call.leave();
  s_device = 0;
  *word = k_before;
  return word;
}

void make_executable() {
  CUgraphExec executable = k_executable;
  cuGraphInstantiateWithFlags_params parameters{&executable, handle<CUgraph>(0x6000), 0};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags, &parameters);
  call.enter();
  call.leave();
}

struct Outcome {
  std::size_t captures;
  std::string failure;       // the last
  std::size_t ready;
};

// Up to where the program's own launch would go on.
Outcome launch(Collector& collector) {
  const Heard before = collector.heard();
  cuGraphLaunch_params parameters{k_executable, nullptr};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, &parameters);
  call.enter();
  call.leave();
  const Heard after = collector.heard();
  const bool has_failed = after.failures.size() != before.failures.size();
  return {after.captures.size() - before.captures.size(), has_failed ? after.failures.back() : "", after.ready - before.ready};
}

bool says(const Outcome& outcome, const char* words) { return outcome.failure.find(words) != std::string::npos; }

void what_is_done_twice_is_undone(Collector& collector, int* word) {
  g_given = {{k_first, word}, {k_second, word}};
  const Outcome outcome = launch(collector);
  CHECK(outcome.captures == 1 && outcome.failure.empty());
  CHECK(*word == k_before);
}

// However long that takes: what it writes would be undone with the rest.
void no_thread_goes_on_before_that(Collector& collector, int* word) {
  std::thread other;
  std::promise<void> entered;
  std::atomic<bool> has_passed{false};
  g_when_nodes_run = [&] {
    other = std::thread([&] {
      Call set(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, nullptr);
      entered.set_value();
      set.enter();
      has_passed = true;
      *word = 99;
      set.leave();
    });
    entered.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(6 * k_wait_ms));
    CHECK(!has_passed);
  };
  const Outcome outcome = launch(collector);
  g_when_nodes_run = [] {};
  other.join();
  CHECK(outcome.captures == 1 && outcome.failure.empty());
  CHECK(*word == 99);
  *word = k_before;
}

void a_launch_that_is_stuck_refuses_it(Collector& collector, int* word) {
  use_second_device();
  std::promise<void> entered;
  std::promise<void> goes_on;
  std::thread other([&] {
    Launch stuck(handle<CUfunction>(0x3000), 1, nullptr, "other");
    stuck.enter();
    entered.set_value();
    goes_on.get_future().wait();
    stuck.leave();
  });
  entered.get_future().wait();
  const Outcome outcome = launch(collector);
  goes_on.set_value();
  other.join();
  leave_second_device();
  CHECK(says(outcome, "what it submits would be undone"));
  CHECK(*word == k_before);
}

// They write there at any time: to put it back would undo that.
void memory_that_other_processes_share_is_left_alone(Collector& collector, int* word, int* exported) {
  CUipcMemHandle told{};
  cuIpcGetMemHandle_params parameters{&told, address_of(exported)};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuIpcGetMemHandle, &parameters);
  call.enter();
  call.leave();
  g_when_nodes_run = [&] { *exported = 77; };
  g_warnings.clear();
  Outcome outcome = launch(collector);
  CHECK(outcome.captures == 1 && outcome.failure.empty());
  CHECK(*exported == 77 && *word == k_before);
  CHECK(times_warned("other processes or GPUs") != 0);
  g_when_nodes_run = [] {};
  g_given[k_first] = exported;
  outcome = launch(collector);
  CHECK(says(outcome, "memory which other processes share"));
  CHECK(*exported == 77);
  g_given[k_first] = word;
}

void what_another_gpu_has_is_refused(Collector& collector, int* word, int* peers) {
  g_given[k_first] = peers;
  CHECK(says(launch(collector), "works on another GPU"));
  CHECK(*peers == k_before);
  g_given[k_first] = word;
  use_second_device();
  for (const CUgraphNode node : {k_first, k_second}) {
    g_contexts[node] = k_context_of_second;
    CHECK(says(launch(collector), "works on another GPU"));
    g_contexts[node] = nullptr;
  }
  leave_second_device();
  CHECK(*word == k_before);
}

// Mapped by hand, where this GPU may reach it: what the other one writes there would be undone.
void memory_of_another_gpu_that_this_one_reaches_is_left_alone(Collector& collector, int* word) {
  int* words = mapped({CU_MEM_LOCATION_TYPE_DEVICE, {1}}, 0);
  *words = k_before;
  g_when_nodes_run = [&] { *words = 77; };
  const Outcome outcome = launch(collector);
  g_when_nodes_run = [] {};
  CHECK(outcome.captures == 1 && outcome.failure.empty());
  CHECK(*words == 77 && *word == k_before);
  g_given[k_first] = words;
  CHECK(says(launch(collector), "works on another GPU"));
  CHECK(*words == 77);
  g_given[k_first] = word;
}

// Pinned memory by another way: where the processor may write, threads of the program may, too.
void a_mapping_of_the_hosts_is_treated_as_pinned_memory_is(Collector& collector, int* word) {
  int* words = mapped({CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}}, 0);
  words[0] = words[1] = k_before;
  g_warnings.clear();
  g_when_nodes_run = [&] { words[1] = 77; };
  CHECK(launch(collector).failure.empty());
  CHECK(words[1] == 77);
  CHECK(times_warned("pinned memory changed") != 0);
  g_given[k_first] = words;      // whose first word the kernel writes, and another one a thread, all the time
  g_warnings.clear();
  int mine = 0;
  std::atomic<bool> is_over{false};
  std::thread counter;
  g_when_nodes_run = [&] {
    counter = std::thread([&] {
      for (; !is_over; ++mine) std::atomic_ref<int>(words[512]).fetch_add(1, std::memory_order_relaxed);
    });
  };
  CHECK(launch(collector).failure.empty());
  is_over = true;
  counter.join();
  CHECK(words[0] == k_before && words[512] == mine && mine > 1 && times_warned("pinned memory changed") == 0);
  g_when_nodes_run = [] {};
  g_given[k_first] = word;
}

void what_works_on_ordinary_memory_of_the_host_is_refused(Collector& collector, int* word) {
  static int s_ordinary = k_before;
  g_known_pages.insert(address_of(word) / 4096);
  reach_ordinary_memory();
  CHECK(launch(collector).failure.empty());
  g_given[k_first] = &s_ordinary;
  CHECK(says(launch(collector), "ordinary memory of the host"));
  CHECK(s_ordinary == k_before);
  g_given[k_first] = word;
}

// A kernel before the wanted one that the cubin at `path` says to launch others.
void what_memory_does_not_hold_is_not_done_twice(Collector& collector, int* word, const char* path) {
  static const char* s_name = "_Z5innerPi";
  std::string cubin = read_file(path);
  load_cubin(cubin);
  driver_stub().cuFuncGetName = [](const char** name, CUfunction function) {
    *name = function == handle<CUfunction>(0x2000) ? "add" : s_name;
    return CUDA_SUCCESS;
  };
  CHECK(launch(collector).failure.empty());
  s_name = "_Z5outerPi";
  CHECK(says(launch(collector), "launches others on the device"));
  CHECK(*word == k_before);
  s_name = "_Z5innerPi";
}

// What our copy of the graph would name otherwise may go.
void events_that_are_exchanged_are_in_the_copy(Collector& collector) {
  static const auto s_event = handle<CUevent>(0x7700);
  static int s_given = 0;
  driver_stub().cuGraphEventRecordNodeSetEvent = [](CUgraphNode node, CUevent event) {
    s_given += node == k_first && event == s_event ? 1 : 0;
    return CUDA_SUCCESS;
  };
  driver_stub().cuGraphEventWaitNodeSetEvent = [](CUgraphNode, CUevent) { return CUDA_ERROR_INVALID_VALUE; };
  cuGraphExecEventRecordNodeSetEvent_params parameters{k_executable, k_first, s_event};
  Call records(CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventRecordNodeSetEvent, &parameters);
  records.enter();
  records.leave();
  CHECK(s_given == 1 && launch(collector).failure.empty());
  Call waits(CUPTI_DRIVER_TRACE_CBID_cuGraphExecEventWaitNodeSetEvent, &parameters);   // laid out alike
  waits.enter();
  waits.leave();
  CHECK(says(launch(collector), "was changed"));
}

// The kernel may end the program, and what it would do is not wanted.
void without_a_state_behind_it_the_kernel_is_not_launched(Collector& collector, int* word) {
  g_given = {{k_first, word}, {k_second, word}};
  const Outcome outcome = launch(collector);
  CHECK(outcome.captures == 1 && outcome.failure.empty() && outcome.ready == 1);
  CHECK(g_kernels == 0 && *word == k_before);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  const bool is_without_post = argc == 4;
  Collector& collector = start_library({.count = 1000}, k_wait_ms, is_without_post ? kerncap::capture::k_welcome_no_post : 0);
  fill_graph_calls();
  std::string cubin = read_file(argv[1]);
  load_cubin(cubin);
  int* word = allocated(0);
  make_executable();
  if (is_without_post) {
    without_a_state_behind_it_the_kernel_is_not_launched(collector, word);
    return kerncap::test::exit_code();
  }
  what_is_done_twice_is_undone(collector, word);
  no_thread_goes_on_before_that(collector, word);
  a_launch_that_is_stuck_refuses_it(collector, word);
  memory_that_other_processes_share_is_left_alone(collector, word, allocated(0));
  what_another_gpu_has_is_refused(collector, word, allocated(1));
  memory_of_another_gpu_that_this_one_reaches_is_left_alone(collector, word);
  a_mapping_of_the_hosts_is_treated_as_pinned_memory_is(collector, word);
  what_works_on_ordinary_memory_of_the_host_is_refused(collector, word);
  what_memory_does_not_hold_is_not_done_twice(collector, word, argv[2]);
  events_that_are_exchanged_are_in_the_copy(collector);
  return kerncap::test::exit_code();
}
