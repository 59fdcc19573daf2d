// A kernel runs on while others of its queue, which need not wait for it, come and go: the program waits for the last
// of them. usage: persistent_kernel CODE_OBJECT COUNT
#include "hsa_kernel.hpp"

int main(int, char** argv) {
  Tally tally("persistent_kernel");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], true);
  const auto count = static_cast<std::size_t>(std::atoi(argv[2]));
  hsa_queue_t* queue = nullptr;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 4096, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  auto* flag = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  *flag = 0;
  *arguments = flag;
  const auto run = [&](const char* name, hsa_signal_t done) {
    const auto packet = code.dispatch(name, 1, arguments, done);
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, false), packet.setup);
  };
  const Signal persistent(1), others(static_cast<hsa_signal_value_t>(count));
  run("spin_until_set", persistent);
  for (std::size_t i = 0; i < count; ++i) run("unread", others);
  others.wait("the last of the others");
  tally.equal("the first kernel runs on", 0, hsa_signal_load_scacquire(persistent), hsa_signal_value_t{1});
  __atomic_store_n(flag, 1u, __ATOMIC_SEQ_CST);
  persistent.wait("the first kernel");
  HSA_OK(hsa_queue_destroy(queue));
  return tally.finish();
}
