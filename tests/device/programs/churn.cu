// Threads beside the kernel that is captured.
//
//   churn streams          make streams, use them once and give them up without a wait
//   churn sets             set memory, and copy it on the device
//   churn modules          load a module, and unload it
//   churn recordings       record graphs, each on two streams, and run them
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "driver_calls.cuh"

constexpr int k_threads = 16;
constexpr int k_launches = 20;

__global__ void target(int* data) { data[threadIdx.x] = 3 * data[threadIdx.x] + 1; }

static void make_streams(char* memory, const std::atomic<bool>& done) {
  while (!done) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemsetAsync(memory, 1, 4096, stream));
    CHECK(cudaStreamDestroy(stream));
  }
}

static void set_memory(char* memory, const std::atomic<bool>& done) {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (unsigned i = 0; !done; ++i) {
    CHECK(cudaMemsetAsync(memory, static_cast<int>(i & 0xFF), 2048, stream));
    CHECK(cudaMemcpyAsync(memory + 2048, memory, 2048, cudaMemcpyDeviceToDevice, stream));
    if (i % 8 == 0) CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaStreamSynchronize(stream));
}

// With a variable, which a capture that finds the module holds.
constexpr const char* k_module = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 variable[1024];
.visible .entry unused() { ret; }
)";

static void load_modules(char*, const std::atomic<bool>& done) {
  CHECK(cudaSetDevice(0));   // the driver's own calls need a context
  while (!done) {
    CUmodule module;
    DRIVER(cuModuleLoadData, &module, static_cast<const void*>(k_module));
    CUdeviceptr address;
    std::size_t bytes;
    DRIVER(cuModuleGetGlobal, &address, &bytes, module, "variable");
    EXPECT(bytes == 4096);
    DRIVER(cuModuleUnload, module);
  }
}

__global__ void add_one(char* memory) { memory[threadIdx.x] = static_cast<char>(memory[threadIdx.x] + 1); }

static void record_graphs(char* memory, const std::atomic<bool>& done) {
  cudaStream_t stream;
  cudaStream_t other;
  cudaEvent_t event;
  for (cudaStream_t* each : {&stream, &other}) CHECK(cudaStreamCreateWithFlags(each, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK(cudaMemsetAsync(memory, 0, 512, stream));
  char expected = 0;
  for (; !done; ++expected) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    add_one<<<1, 256, 0, stream>>>(memory);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    add_one<<<1, 256, 0, other>>>(memory + 256);
    CHECK(cudaEventRecord(event, other));
    CHECK(cudaStreamWaitEvent(stream, event, 0));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
  }
  char last[512];
  CHECK(cudaMemcpyAsync(last, memory, sizeof last, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(last[0] == expected && last[511] == expected);
}

using Work = void(char*, const std::atomic<bool>&);

static Work* work_named(const char* name) {
  if (std::strcmp(name, "sets") == 0) return set_memory;
  if (std::strcmp(name, "modules") == 0) return load_modules;
  return std::strcmp(name, "recordings") == 0 ? record_graphs : make_streams;
}

int main(int argc, char** argv) {
  Work* const work = work_named(argc > 1 ? argv[1] : "streams");
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 128 * sizeof(int)));
  CHECK(cudaMemset(data, 0, 128 * sizeof(int)));
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < k_threads; ++i) {
    char* memory = nullptr;
    CHECK(cudaMalloc(&memory, 4096));
    threads.emplace_back([memory, work, &done] { work(memory, done); });
  }
  usleep(100'000);
  int expected = 0;
  for (int i = 0; i < k_launches; ++i, expected = 3 * expected + 1) {
    target<<<1, 128>>>(data);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(nullptr));
    usleep(1000);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  int last = 0;
  CHECK(cudaMemcpy(&last, data + 127, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == expected);
  std::printf("ok\n");
  return 0;
}
