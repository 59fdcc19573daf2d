// Dispatches the target from an exit handler that was registered first, so that it runs after the static
// destructors of every library. usage: late_dispatch CODE_OBJECT
#include "hsa_kernel.hpp"

namespace {

const Machine* g_machine;
const CodeObject* g_code;
hsa_queue_t* g_queue;
unsigned** g_arguments;
unsigned* g_word;

void run_target() {
  const Signal& done = *new Signal(1);
  hsa_kernel_dispatch_packet_t packet = g_code->dispatch("target", 1, g_arguments, done);
  submit(g_queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  done.wait("the target");
}

void at_exit() {
  run_target();
  std::printf("late_dispatch: word %u\n", *g_word);
  std::fflush(stdout);
  _exit(*g_word == 2 ? 0 : 1);
}

}  // namespace

int main(int, char** argv) {
  std::atexit(at_exit);
  g_machine = new Machine();
  g_code = new CodeObject(g_machine->gpus[0], argv[1], false);
  HSA_OK(hsa_queue_create(g_machine->gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX,
                          UINT32_MAX, &g_queue));
  g_word = static_cast<unsigned*>(kernarg_memory(*g_machine, 4096));
  g_arguments = static_cast<unsigned**>(kernarg_memory(*g_machine, 4096));
  *g_word = 0;
  *g_arguments = g_word;
  run_target();
  return 0;
}
