// A queue of 64 packets that is kept full: submissions of BATCH packets, the target near the end of each, and nobody
// waits for one before the next. usage: full_ring CODE_OBJECT BATCH [SUBMISSIONS]
#include "hsa_kernel.hpp"

int main(int argc, char** argv) {
  Tally tally("full_ring");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], true);
  const unsigned batch = static_cast<unsigned>(std::atoi(argv[2]));
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 64, HSA_QUEUE_TYPE_SINGLE, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  tally.expect(queue->size >= 64, "size", 0, queue->size, 64);
  auto* words = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  words[0] = words[1] = 0;
  arguments[0] = &words[0];
  arguments[8] = &words[1];  // 64 bytes further on
  // Several times around the ring, whatever its size.
  const unsigned rounds = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 12000 / batch;
  const Signal done(rounds);
  for (unsigned round = 0; round < rounds; ++round) {
    std::vector<hsa_kernel_dispatch_packet_t> packets(batch, code.dispatch("other", 1, &arguments[0], {}));
    packets[batch - 2] = code.dispatch("target", 1, &arguments[8], {});
    packets[batch - 1].completion_signal = done;
    submit_all(queue, packets);
  }
  done.wait("the submissions");
  tally.equal("other", 0, words[0], rounds * (batch - 1));
  tally.equal("target", 0, words[1], rounds);
  HSA_OK(hsa_queue_destroy(queue));
  return tally.finish();
}
