// Two processes of one program use the GPU at once, each with a GPU of its own; a child that is forked after its parent has
// shut ROCr down starts it anew; and a child that is forked while its parent uses the GPU leaves without harm to the parent.
// (ROCr itself cannot start anew in such a child.)
#include <sys/wait.h>
#include <unistd.h>

#include "hsa_check.hpp"

namespace {

// Fills device memory with a word and reads it back.
bool use(unsigned word) {
  constexpr std::size_t k_bytes = 1 << 20;
  const Machine machine;
  void *device = nullptr, *host = nullptr;
  HSA_OK(hsa_amd_memory_pool_allocate(machine.gpus[0].coarse().handle, k_bytes, 0, &device));
  HSA_OK(hsa_amd_memory_pool_allocate(machine.cpus[0].fine().handle, k_bytes, 0, &host));
  HSA_OK(hsa_amd_agents_allow_access(1, &machine.gpus[0].handle, nullptr, host));
  HSA_OK(hsa_amd_memory_fill(device, word, k_bytes / 4));
  HSA_OK(hsa_memory_copy(host, device, k_bytes));
  const unsigned* words = static_cast<const unsigned*>(host);
  for (std::size_t i = 0; i < k_bytes / 4; ++i)
    if (words[i] != word) return false;
  HSA_OK(hsa_amd_memory_pool_free(device));
  HSA_OK(hsa_amd_memory_pool_free(host));
  return true;
}

int status_of(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

}  // namespace

int main() {
  Tally tally("fork_and_use");
  const pid_t user = fork();
  if (user == 0) std::_Exit(use(2) && use(3) ? 0 : 1);
  tally.expect(use(1), "beside the child", 0, 0, 1);

  const pid_t heir = fork();  // what its parent had is shut down by now
  if (heir == 0) std::_Exit(use(5) && use(6) ? 0 : 1);
  tally.expect(use(7), "beside the heir", 0, 0, 1);
  tally.equal("child that starts anew", 0, status_of(heir), 0);

  const Machine machine;  // alive across the fork
  const pid_t bystander = fork();
  if (bystander == 0) std::exit(0);  // with all that runs at exit
  tally.equal("child that does nothing", 0, status_of(bystander), 0);
  tally.expect(use(4), "after the fork", 0, 0, 1);
  tally.equal("child that uses the GPU", 0, status_of(user), 0);
  return tally.finish();
}
