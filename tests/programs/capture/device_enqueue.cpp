// Dispatches a kernel that submits the target to a queue to which the host submits nothing. usage: device_enqueue CODE_OBJECT
#include "hsa_kernel.hpp"

int main(int, char** argv) {
  Tally tally("device_enqueue");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], false);
  hsa_queue_t* queues[2];
  for (hsa_queue_t*& queue : queues)
    HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                            &queue));
  auto [host, child] = queues;
  auto* memory = static_cast<char*>(kernarg_memory(machine, 4096));
  auto* word = reinterpret_cast<unsigned*>(memory);
  auto** target_arguments = reinterpret_cast<unsigned**>(memory + 64);
  auto* packet = reinterpret_cast<hsa_kernel_dispatch_packet_t*>(memory + 128);
  struct Arguments {
    hsa_queue_t* queue;
    const hsa_kernel_dispatch_packet_t* packet;
    std::uint64_t index;
  };
  auto* arguments = reinterpret_cast<Arguments*>(memory + 192);
  *word = 0;
  *target_arguments = word;
  for (unsigned i = 0; i < 3; ++i) {
    const Signal submitted(1), done(1);
    *packet = code.dispatch("target", 1, target_arguments, done);
    packet->header = packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true);
    packet->workgroup_size_x = 1;
    packet->grid_size_x = 1;
    *arguments = {child, packet, hsa_queue_load_write_index_relaxed(child)};
    auto scheduler = code.dispatch("__amd_rocclr_scheduler", 1, arguments, submitted);
    scheduler.workgroup_size_x = 1;
    scheduler.grid_size_x = 1;
    submit(host, scheduler, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), scheduler.setup);
    submitted.wait("the kernel that submits");
    done.wait("the target");
    tally.equal("word", i, *word, i + 1);
  }
  for (hsa_queue_t* queue : queues) HSA_OK(hsa_queue_destroy(queue));
  return tally.finish();
}
