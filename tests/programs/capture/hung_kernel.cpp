// A target that does not end until another one has, on another queue; then a third that has nothing in its way. All
// have completion signals of the program's own. usage: hung_kernel CODE_OBJECT
#include "hsa_kernel.hpp"

int main(int, char** argv) {
  Tally tally("hung_kernel");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], true);
  hsa_queue_t* queues[2];
  for (hsa_queue_t*& queue : queues)
    HSA_OK(hsa_queue_create(machine.gpus[0].handle, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                            &queue));
  auto* flags = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  flags[0] = 0;
  flags[1] = 1;
  arguments[0] = &flags[0];
  arguments[8] = &flags[1];
  const auto run = [&](hsa_queue_t* queue, unsigned** argument, hsa_signal_t done) {
    const auto packet = code.dispatch("spin_until_set", 1, argument, done);
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  };
  const Signal first(1), second(1), third(1);
  run(queues[0], &arguments[0], first);
  run(queues[1], &arguments[8], second);
  second.wait("the second kernel");
  tally.equal("the first one hangs", 0, hsa_signal_load_scacquire(first), hsa_signal_value_t{1});
  __atomic_store_n(&flags[0], 1u, __ATOMIC_SEQ_CST);
  first.wait("the first kernel");
  run(queues[1], &arguments[8], third);
  third.wait("the third kernel");
  tally.equal("third", 0, hsa_signal_load_scacquire(third), hsa_signal_value_t{0});
  for (hsa_queue_t* queue : queues) HSA_OK(hsa_queue_destroy(queue));
  return tally.finish();
}
