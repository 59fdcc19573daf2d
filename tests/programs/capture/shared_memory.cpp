// A child process attaches device memory that its parent shares, and runs the target on it.
// usage: shared_memory CODE_OBJECT; prints the address that the child has it at.
#include <sys/wait.h>

#include "hsa_kernel.hpp"

namespace {

constexpr std::size_t k_bytes = 64 * 1024;

int child(const char* path, int from_parent) {
  hsa_amd_ipc_memory_t handle;
  if (read(from_parent, &handle, sizeof handle) != static_cast<ssize_t>(sizeof handle)) return 2;
  const Machine machine;
  const CodeObject code(machine.gpus[0], path, true);
  void* shared = nullptr;
  HSA_OK(hsa_amd_ipc_memory_attach(&handle, k_bytes, 1, &machine.gpus[0].handle, &shared));
  std::printf("shared %p\n", shared);
  std::fflush(stdout);
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  auto** argument = static_cast<void**>(kernarg_memory(machine, 4096));
  *argument = shared;
  const Signal done(1);
  const auto packet = code.dispatch("target", 1, argument, done);
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  done.wait("the target");
  HSA_OK(hsa_queue_destroy(queue));
  HSA_OK(hsa_amd_ipc_memory_detach(shared));
  return 0;
}

}  // namespace

int main(int, char** argv) {
  int down[2];
  if (pipe(down) != 0) return 1;
  const pid_t pid = fork();  // before any use of HSA
  if (pid == 0) return child(argv[1], down[0]);
  Tally tally("shared_memory");
  const Machine machine;
  void* shared = nullptr;
  HSA_OK(hsa_amd_memory_pool_allocate(machine.gpus[0].coarse().handle, k_bytes, 0, &shared));
  HSA_OK(hsa_amd_memory_fill(shared, 41, k_bytes / 4));
  hsa_amd_ipc_memory_t handle;
  HSA_OK(hsa_amd_ipc_memory_create(shared, k_bytes, &handle));
  tally.expect(write(down[1], &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle), "sent", 0, 0, 1);
  int status = -1;
  waitpid(pid, &status, 0);
  tally.equal("child's status", 0, status, 0);
  auto* host = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  HSA_OK(hsa_memory_copy(host, shared, 4096));
  tally.equal("first word", 0, host[0], 42u);
  tally.equal("second word", 0, host[1], 41u);
  return tally.finish();
}
