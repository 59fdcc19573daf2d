// Makes a device's cooperative queue twice and destroys it twice, then makes it again, and runs the target on each.
// usage: cooperative_queues CODE_OBJECT
#include "hsa_kernel.hpp"

namespace {

hsa_queue_t* make(const Machine& machine) {
  hsa_queue_t* queue = nullptr;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_COOPERATIVE, nullptr, nullptr, UINT32_MAX,
                          UINT32_MAX, &queue));
  return queue;
}

}  // namespace

int main(int, char** argv) {
  unsigned word = 0;
  {
    const Machine machine;
    const CodeObject code(machine.gpus[0], argv[1], false);
    auto* target = static_cast<unsigned*>(kernarg_memory(machine, 4096));
    auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
    *target = 0;
    *arguments = target;
    const auto run = [&](hsa_queue_t* queue) {
      const Signal done(1);
      hsa_kernel_dispatch_packet_t packet = code.dispatch("target", 1, arguments, done);
      submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
      done.wait("the target");
    };
    hsa_queue_t* first = make(machine);
    hsa_queue_t* second = make(machine);
    std::printf("one queue: %s\n", first == second ? "yes" : "no");
    run(first);
    HSA_OK(hsa_queue_destroy(first));
    run(second);
    HSA_OK(hsa_queue_destroy(second));
    hsa_queue_t* third = make(machine);
    run(third);
    HSA_OK(hsa_queue_destroy(third));
    word = *target;
  }
  std::printf("word %u\n", word);
  return word == 3 ? 0 : 1;
}
