// A graph beside which another process writes, all the time, into memory that this one has exported.
//
//   shared_graph           no node is given that memory
//   shared_graph given     a node that stands before the kernel is
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "check.cuh"

constexpr int k_words = 20'000;
constexpr int k_begun = 100;
constexpr std::size_t k_large_bytes = std::size_t{1} << 30;   // for which a capture takes its time

__global__ void add_one(int* data) { data[threadIdx.x] += 1; }
__global__ void target(int* data) { data[threadIdx.x] = 3 * data[threadIdx.x] + 1; }

static int child() {
  cudaIpcMemHandle_t handle;
  EXPECT(read(STDIN_FILENO, &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle));
  int* shared = nullptr;
  CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void**>(&shared), handle, cudaIpcMemLazyEnablePeerAccess));
  for (int i = 0; i < k_words; ++i) {
    const int value = i + 1;
    CHECK(cudaMemcpy(shared + i, &value, sizeof value, cudaMemcpyHostToDevice));
    if (i == k_begun) EXPECT(write(STDOUT_FILENO, "", 1) == 1);
  }
  CHECK(cudaIpcCloseMemHandle(shared));
  return 0;
}

static pid_t start_child(int& to, int& from) {
  int in[2];
  int out[2];
  EXPECT(pipe(in) == 0 && pipe(out) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  for (const int end : {in[0], in[1], out[0], out[1]}) posix_spawn_file_actions_addclose(&actions, end);
  char name[] = "shared_graph";
  char mode[] = "child";
  char* words[] = {name, mode, nullptr};
  pid_t pid = 0;
  EXPECT(posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, words, environ) == 0);
  to = in[1];
  from = out[0];
  return pid;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (std::strcmp(mode, "child") == 0) return child();
  int to = -1;
  int from = -1;
  const pid_t pid = start_child(to, from);
  int* shared = nullptr;
  int* data = nullptr;
  int* own = nullptr;
  void* large = nullptr;
  CHECK(cudaMalloc(&shared, (k_words + 256) * sizeof *shared));
  CHECK(cudaMalloc(&data, 256 * sizeof *data));
  CHECK(cudaMalloc(&own, 256 * sizeof *own));
  CHECK(cudaMalloc(&large, k_large_bytes));
  CHECK(cudaMemset(shared, 0, (k_words + 256) * sizeof *shared));
  CHECK(cudaMemset(data, 0, 256 * sizeof *data));
  CHECK(cudaMemset(own, 0, 256 * sizeof *own));
  CHECK(cudaMemset(large, 0, k_large_bytes));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int* counted = std::strcmp(mode, "given") == 0 ? shared + k_words : own;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  add_one<<<1, 256, 0, stream>>>(counted);
  target<<<1, 256, 0, stream>>>(data);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaDeviceSynchronize());
  cudaIpcMemHandle_t handle;
  CHECK(cudaIpcGetMemHandle(&handle, shared));
  EXPECT(write(to, &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle));
  char begun = 0;
  EXPECT(read(from, &begun, 1) == 1);
  int expected = 0;
  for (int i = 0; i < 4; ++i, expected = 3 * expected + 1) {
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  int status = 0;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  std::vector<int> words(k_words);
  CHECK(cudaMemcpy(words.data(), shared, k_words * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < k_words; ++i) EXPECT(words[static_cast<std::size_t>(i)] == i + 1);
  int last = 0;
  CHECK(cudaMemcpy(&last, data + 255, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == expected);
  CHECK(cudaMemcpy(&last, counted + 255, sizeof last, cudaMemcpyDeviceToHost));
  EXPECT(last == 4);
  std::printf("ok\n");
  return 0;
}
