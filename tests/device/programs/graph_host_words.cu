// A thread of the program counts in host memory while a kernel of a graph is captured, which runs twice and is put back: neither
// the thread's words nor the kernel's may show it.
//
//   graph_host_words pinned          both count in one block of pinned memory
//   graph_host_words ticks           the same, while a signal comes every millisecond
//   graph_host_words protected       the kernel alone counts, in memory that nobody may touch while it does
//   graph_host_words managed         the thread counts in managed memory that no kernel is given
//   graph_host_words pointer         the kernel finds its pinned word behind a pointer in memory: nobody can tell whose it is
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "check.cuh"

constexpr int k_launches = 4;
constexpr int k_words = 1 << 16;

__global__ void target(int** where, int* data) {
  int* word = where == nullptr ? data : *where;
  *word += 1;
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int* pinned = nullptr;
  int* managed = nullptr;
  int** where = nullptr;
  if (mode == "protected") {
    void* pages = mmap(nullptr, k_words * sizeof *pinned, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED);
    pinned = static_cast<int*>(pages);
    CHECK(cudaHostRegister(pinned, k_words * sizeof *pinned, cudaHostRegisterDefault));
  } else {
    CHECK(cudaMallocHost(&pinned, k_words * sizeof *pinned));
  }
  CHECK(cudaMallocManaged(&managed, k_words * sizeof *managed));
  CHECK(cudaMalloc(&where, sizeof *where));
  std::memset(pinned, 0, k_words * sizeof *pinned);
  std::memset(managed, 0, k_words * sizeof *managed);
  int* counted = pinned + k_words / 2;          // by the kernel
  CHECK(cudaMemcpy(where, &counted, sizeof counted, cudaMemcpyHostToDevice));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  target<<<1, 1, 0, stream>>>(mode == "pointer" ? where : nullptr, mode == "pointer" ? nullptr : counted);
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));

  std::atomic<bool> done{false};
  int mine = 0;
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarms, nullptr);   // of the counter; signals come to this thread
  std::thread counter([&] {
    if (mode == "pointer" || mode == "protected") return;
    volatile int* word = mode == "managed" ? managed : pinned;
    for (; !done; ++mine) {
      *word = *word + 1;
      if (mode == "ticks") usleep(4000);   // longer than from one signal to the next
    }
  });
  if (mode == "ticks") {
    signal(SIGALRM, [](int) {});
    pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
    const itimerval often{{0, 700}, {0, 700}};
    EXPECT(setitimer(ITIMER_REAL, &often, nullptr) == 0);
  }
  for (int i = 0; i < k_launches; ++i) {
    if (mode == "protected") EXPECT(mprotect(pinned, k_words * sizeof *pinned, PROT_NONE) == 0);
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (mode == "protected") EXPECT(mprotect(pinned, k_words * sizeof *pinned, PROT_READ | PROT_WRITE) == 0);
  }
  const itimerval never{};
  EXPECT(setitimer(ITIMER_REAL, &never, nullptr) == 0);
  done = true;
  counter.join();
  EXPECT(*(mode == "managed" ? managed : pinned) == mine);
  if (mode != "pointer") EXPECT(*counted == k_launches);
  std::printf("ok\n");
  return 0;
}
