// Ends while a target hangs whose capture was given up. An exit handler that was registered first, and so runs last,
// lets the kernel go on and waits for it. usage: late_completion CODE_OBJECT
#include "hsa_kernel.hpp"

namespace {

unsigned* g_flags;
const Signal* g_hangs;

void at_exit() {
  __atomic_store_n(&g_flags[0], 1u, __ATOMIC_SEQ_CST);
  g_hangs->wait("the kernel that hung");
  std::printf("late_completion: ended\n");
  std::fflush(stdout);
  _exit(0);
}

}  // namespace

int main(int, char** argv) {
  std::atexit(at_exit);
  const Machine& machine = *new Machine();
  const CodeObject& code = *new CodeObject(machine.gpus[0], argv[1], true);
  g_flags = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  g_hangs = new Signal(1);
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  g_flags[0] = 0;
  g_flags[1] = 1;
  arguments[0] = &g_flags[0];
  arguments[8] = &g_flags[1];
  const auto run = [&](unsigned** argument, hsa_signal_t done) {
    hsa_queue_t* queue = nullptr;
    HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                            &queue));
    const auto packet = code.dispatch("spin_until_set", 1, argument, done);
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  };
  // Wanted, too: it is let go once the capture of the first one is over.
  const Signal second(1);
  run(&arguments[0], *g_hangs);
  run(&arguments[8], second);
  second.wait("the second kernel");
  return 0;
}
