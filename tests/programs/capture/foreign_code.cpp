// A kernel of one code object calls a function of another one, whose address a kernel of that left in memory.
// usage: foreign_code CODE_OBJECT
#include "hsa_kernel.hpp"

namespace {

void run(hsa_queue_t* queue, const CodeObject& code, const char* name, void* arguments) {
  const Signal done(1);
  hsa_kernel_dispatch_packet_t packet = code.dispatch(name, 1, arguments, done);
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  done.wait(name);
}

}  // namespace

int main(int, char** argv) {
  Tally tally("foreign_code");
  const Machine machine;
  const CodeObject theirs(machine.gpus[0], argv[1], true);
  const CodeObject own(machine.gpus[0], argv[1], true);
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  auto* words = static_cast<unsigned long*>(kernarg_memory(machine, 4096));
  auto** arguments = static_cast<void**>(kernarg_memory(machine, 4096));
  words[1] = 10;
  arguments[0] = &words[0];
  arguments[1] = &words[1];
  run(queue, theirs, "remember", arguments);
  run(queue, own, "call", arguments);
  tally.equal("word", 0, static_cast<unsigned>(words[1]), 15u);
  HSA_OK(hsa_queue_destroy(queue));
  return tally.finish();
}
