// Each target gets a queue of its own, which is destroyed as soon as the target has ended. Another queue stays.
// usage: short_queues CODE_OBJECT TARGETS
#include "hsa_kernel.hpp"

namespace {

hsa_queue_t* make_queue(const Machine& machine) {
  hsa_queue_t* queue = nullptr;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  return queue;
}

}  // namespace

int main(int, char** argv) {
  Tally tally("short_queues");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], false);
  const auto targets = static_cast<unsigned>(std::atoi(argv[2]));
  auto* word = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  *word = 0;
  *arguments = word;
  hsa_queue_t* other = make_queue(machine);
  for (unsigned i = 0; i < targets; ++i) {
    hsa_queue_t* queue = make_queue(machine);
    const Signal done(1);
    const auto packet = code.dispatch("target", 1, arguments, done);
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
    done.wait("the target");
    HSA_OK(hsa_queue_destroy(queue));
  }
  tally.equal("word", 0U, *word, targets);
  HSA_OK(hsa_queue_destroy(other));
  return tally.finish();
}
