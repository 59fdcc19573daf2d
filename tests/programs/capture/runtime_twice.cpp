// Starts the runtime, gives a second reference to it back, dispatches the target and shuts the runtime down, while its
// queue is still there; and all of it again.
// usage: runtime_twice CODE_OBJECT
#include "hsa_kernel.hpp"

int main(int, char** argv) {
  Tally tally("runtime_twice");
  for (int life = 0; life < 2; ++life) {
    const Machine machine;
    { const Machine second; }
    const CodeObject code(machine.gpus[0], argv[1], false);
    hsa_queue_t* queue = nullptr;
    HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                            &queue));
    auto* word = static_cast<unsigned*>(kernarg_memory(machine, 4096));
    auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
    *word = static_cast<unsigned>(life);
    *arguments = word;
    const Signal done(1);
    const hsa_kernel_dispatch_packet_t packet = code.dispatch("target", 1, arguments, done);
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
    done.wait("the target");
    tally.equal("word", life, *word, static_cast<unsigned>(life) + 1);
  }
  return tally.finish();
}
