// Device memory shared between two processes: the parent's writes are seen by the child, and the other way round.
#include <sys/wait.h>
#include <unistd.h>

#include "hsa_check.hpp"

namespace {

constexpr std::size_t k_bytes = 1 << 20;

// Word i of the shared memory is what `factor` says, as the GPU's copy of it shows.
bool holds(const Machine& machine, void* shared, unsigned factor) {
  void* host = nullptr;
  HSA_OK(hsa_amd_memory_pool_allocate(machine.cpus[0].fine().handle, k_bytes, 0, &host));
  HSA_OK(hsa_amd_agents_allow_access(1, &machine.gpus[0].handle, nullptr, host));
  HSA_OK(hsa_memory_copy(host, shared, k_bytes));
  const unsigned* words = static_cast<const unsigned*>(host);
  bool right = true;
  for (std::size_t i = 0; i < k_bytes / 4; ++i) right = right && words[i] == factor;
  HSA_OK(hsa_amd_memory_pool_free(host));
  return right;
}

int child(int from_parent, int to_parent) {
  hsa_amd_ipc_memory_t handle;
  if (read(from_parent, &handle, sizeof handle) != static_cast<ssize_t>(sizeof handle)) return 2;
  const Machine machine;
  void* shared = nullptr;
  HSA_OK(hsa_amd_ipc_memory_attach(&handle, k_bytes, 1, &machine.gpus[0].handle, &shared));
  const bool right = holds(machine, shared, 0x11u);
  HSA_OK(hsa_amd_memory_fill(shared, 0x22u, k_bytes / 4));
  HSA_OK(hsa_amd_ipc_memory_detach(shared));
  const char done = 1;
  return right && write(to_parent, &done, 1) == 1 ? 0 : 3;
}

}  // namespace

int main() {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) return 1;
  const pid_t pid = fork();  // before any use of HSA
  if (pid == 0) return child(down[0], up[1]);
  close(up[1]);
  Tally tally("hsa_ipc");
  {
    // Never shut down: ROCr 7.2 tells the thread that serves exported memory to end, and does not wait for it. That
    // thread and hsa_shut_down both free the list of exports, sometimes at the same time.
    const Machine& machine = *new Machine;
    void* shared = nullptr;
    HSA_OK(hsa_amd_memory_pool_allocate(machine.gpus[0].coarse().handle, k_bytes, 0, &shared));
    HSA_OK(hsa_amd_memory_fill(shared, 0x11u, k_bytes / 4));
    hsa_amd_ipc_memory_t handle;
    HSA_OK(hsa_amd_ipc_memory_create(shared, k_bytes, &handle));
    tally.expect(write(down[1], &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle), "handle sent", 0, 0, 1);
    char done = 0;
    tally.expect(read(up[0], &done, 1) == 1, "child wrote", 0, 0, 1);
    tally.expect(holds(machine, shared, 0x22u), "the child's words", 0, 0, 1);
    HSA_OK(hsa_amd_memory_pool_free(shared));
  }
  int status = -1;
  waitpid(pid, &status, 0);
  tally.equal("child's status", 0, status, 0);
  return tally.finish();
}
