// While the target is captured, makes queues one after the other, counts in device memory through each, and gives it
// back as soon as that has ended. usage: new_queues CODE_OBJECT MIB; MIB of device memory keep the capture busy.
// Prints "counter ADDRESS".
#include "hsa_kernel.hpp"

namespace {

constexpr unsigned k_most_queues = 200;

hsa_queue_t* make_queue(const Machine& machine) {
  hsa_queue_t* queue = nullptr;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  return queue;
}

unsigned* device_memory(const Machine& machine, std::size_t bytes) {
  void* memory = nullptr;
  HSA_OK(hsa_amd_memory_pool_allocate(machine.gpus[0].coarse().handle, bytes, 0, &memory));
  HSA_OK(hsa_amd_agents_allow_access(1, &machine.cpus[0].handle, nullptr, memory));
  return static_cast<unsigned*>(memory);
}

}  // namespace

int main(int, char** argv) {
  Tally tally("new_queues");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], true);
  unsigned* const counter = device_memory(machine, 4096);
  unsigned* const word = device_memory(machine, 4096);
  device_memory(machine, static_cast<std::size_t>(std::atoi(argv[2])) << 20);
  *counter = *word = 0;
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  arguments[0] = word;
  arguments[8] = counter;
  const auto run = [&](hsa_queue_t* queue, const char* name, unsigned** argument, hsa_signal_t done) {
    const auto packet = code.dispatch(name, 1, argument, done);
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  };
  hsa_queue_t* const first = make_queue(machine);
  const Signal target(1);
  run(first, "target", &arguments[0], target);
  unsigned queues = 0;
  do {
    hsa_queue_t* const queue = make_queue(machine);
    const Signal counted(1);
    run(queue, "other", &arguments[8], counted);
    counted.wait("the kernel that counts");
    HSA_OK(hsa_queue_destroy(queue));
  } while (++queues < k_most_queues && hsa_signal_load_scacquire(target) > 0);
  target.wait("the target");
  tally.equal("counter", 0, *counter, queues);
  tally.equal("word", 0, *word, 1U);
  HSA_OK(hsa_queue_destroy(first));
  std::printf("counter %p\n", static_cast<void*>(counter));
  return tally.finish();
}
