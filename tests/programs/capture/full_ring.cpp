// A queue of 64 packets that is filled with one submission, the target near its end, again and again.
// usage: full_ring CODE_OBJECT FREE: how many packets of the ring each submission leaves free
#include "hsa_kernel.hpp"

int main(int, char** argv) {
  Tally tally("full_ring");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], true);
  const unsigned long left_free = std::strtoul(argv[2], nullptr, 10);
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 64, HSA_QUEUE_TYPE_SINGLE, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  tally.expect(queue->size >= 64, "size", 0, queue->size, 64);
  auto* words = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  words[0] = words[1] = 0;
  arguments[0] = &words[0];
  arguments[8] = &words[1];  // 64 bytes further on
  const unsigned long count = queue->size - left_free;
  constexpr unsigned k_rounds = 3;
  for (unsigned round = 0; round < k_rounds; ++round) {
    const Signal done(1);
    std::vector<hsa_kernel_dispatch_packet_t> packets(count, code.dispatch("other", 1, &arguments[0], {}));
    packets[count - 2] = code.dispatch("target", 1, &arguments[8], {});
    packets[count - 1].completion_signal = done;
    submit_all(queue, packets);
    done.wait("a submission");
  }
  tally.equal("other", 0, words[0], static_cast<unsigned>(k_rounds * (count - 1)));
  tally.equal("target", 0, words[1], k_rounds);
  HSA_OK(hsa_queue_destroy(queue));
  return tally.finish();
}
