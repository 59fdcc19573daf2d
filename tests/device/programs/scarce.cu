// Launches from a thread whose stack has so many KiB; from threads that are cancelled; from a process that may have no more
// memory; and with a child that ends by exit() while a state is on its way.
//
//   scarce stack KIBIBYTES | cancelled THREADS | memory MEBIBYTES | fork|_Fork|clone MEBIBYTES
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "check.cuh"

constexpr int k_launches = 4;

__global__ void target(int* to) { to[threadIdx.x] += 1; }

static int* g_to;

static void launch() {
  for (int i = 0; i < k_launches; ++i) {
    target<<<1, 32>>>(g_to);
    CHECK(cudaGetLastError());
  }
}

static void* launch_once(void*) {
  launch();
  CHECK(cudaDeviceSynchronize());
  return nullptr;
}

// usleep() is where it can be cancelled, and nothing of the launches.
static void* launch_on(void*) {
  for (;;) {
    launch();
    usleep(100);
  }
}

static int run_with_stack(std::size_t bytes) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  EXPECT(pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread;
  EXPECT(pthread_create(&thread, &attributes, launch_once, nullptr) == 0);
  pthread_join(thread, nullptr);
  return k_launches;
}

static int run_cancelled(int threads) {
  for (int i = 0; i < threads; ++i) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, nullptr, launch_on, nullptr) == 0);
    usleep(3000);
    pthread_cancel(thread);
    void* result = nullptr;
    pthread_join(thread, &result);
    EXPECT(result == PTHREAD_CANCELED);
  }
  return -1;  // nobody knows how many
}

static int run_without_memory(std::size_t more_bytes) {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  EXPECT(file != nullptr && std::fscanf(file, "%lu", &pages) == 1);
  std::fclose(file);
  const rlimit limit{pages * sysconf(_SC_PAGESIZE) + more_bytes, RLIM_INFINITY};
  EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
  launch();
  return k_launches;
}

static int run_with_child(const std::string& kind, std::size_t bytes) {
  char* state;
  CHECK(cudaMalloc(&state, bytes));
  CHECK(cudaMemset(state, 1, bytes));
  CHECK(cudaDeviceSynchronize());
  launch();
  const pid_t child = kind == "fork"    ? fork()
                      : kind == "_Fork" ? _Fork()
                                        : static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    alarm(20);
    std::exit(7);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  return k_launches;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string kind = argv[1];
  const std::size_t number = std::stoull(argv[2]);
  CHECK(cudaMalloc(&g_to, 32 * sizeof(int)));
  CHECK(cudaMemset(g_to, 0, 32 * sizeof(int)));
  target<<<1, 1>>>(g_to + 31);   // loaded before anything is scarce
  CHECK(cudaDeviceSynchronize());
  const int launches = kind == "stack"       ? run_with_stack(number << 10)
                       : kind == "cancelled" ? run_cancelled(static_cast<int>(number))
                       : kind == "memory"    ? run_without_memory(number << 20)
                                             : run_with_child(kind, number << 20);
  CHECK(cudaDeviceSynchronize());
  int seen[32];
  CHECK(cudaMemcpy(seen, g_to, sizeof seen, cudaMemcpyDefault));
  for (int i = 0; i < 31 && launches >= 0; ++i) EXPECT(seen[i] == launches);
  std::puts("ok");
}
