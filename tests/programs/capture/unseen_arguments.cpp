// Dispatches `unread` with arguments where no kernel could read them: in memory of the program's own that nobody
// registered, or nowhere. usage: unseen_arguments CODE_OBJECT stack|nowhere
#include "hsa_kernel.hpp"

int main(int, char** argv) {
  Tally tally("unseen_arguments");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], false);
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  alignas(64) std::uint64_t arguments[8] = {};
  const Signal done(1);
  hsa_kernel_dispatch_packet_t packet =
      code.dispatch("unread", 1, std::string(argv[2]) == "stack" ? arguments : nullptr, done);
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  done.wait("the dispatch");
  tally.equal("done", 0, static_cast<unsigned>(hsa_signal_load_scacquire(done)), 0u);
  HSA_OK(hsa_queue_destroy(queue));
  return tally.finish();
}
