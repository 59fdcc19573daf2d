// A queue whose ring is full, as its first packet waits, is destroyed while the target on another queue is captured.
// usage: full_queue_goes CODE_OBJECT
#include <unistd.h>

#include "hsa_kernel.hpp"

namespace {

hsa_queue_t* make_queue(const Machine& machine) {
  hsa_queue_t* queue = nullptr;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 4096, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  return queue;
}

// All places of the ring, without a look at its read index: it was empty.
void fill(hsa_queue_t* queue, hsa_signal_t wait_for) {
  hsa_barrier_and_packet_t barrier{};
  barrier.dep_signal[0] = wait_for;
  const std::uint64_t first = hsa_queue_add_write_index_screlease(queue, queue->size);
  for (std::uint64_t i = 0; i < queue->size; ++i) {
    char* slot = static_cast<char*>(queue->base_address) + ((first + i) % queue->size) * 64;
    std::memcpy(slot + 4, reinterpret_cast<const char*>(&barrier) + 4, 60);
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(slot), packet_header(HSA_PACKET_TYPE_BARRIER_AND, true),
                     __ATOMIC_RELEASE);
    const bool rings = i + 1 == queue->size / 2 || i + 1 == queue->size;
    if (rings) hsa_signal_store_screlease(queue->doorbell_signal, static_cast<hsa_signal_value_t>(first + i));
  }
}

}  // namespace

int main(int, char** argv) {
  Tally tally("full_queue_goes");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], true);
  auto* word = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  *word = 0;
  *arguments = word;
  hsa_queue_t* const full = make_queue(machine);
  hsa_queue_t* const first = make_queue(machine);
  const Signal never(1);
  fill(full, never);
  const Signal done(1);
  const auto packet = code.dispatch("target", 1, arguments, done);
  submit(first, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  // Most likely the capture waits for room in the full one by now; it is right in any case.
  ::usleep(300'000);
  HSA_OK(hsa_queue_destroy(full));
  done.wait("the target");
  tally.equal("word", 0, *word, 1U);
  HSA_OK(hsa_queue_destroy(first));
  return tally.finish();
}
