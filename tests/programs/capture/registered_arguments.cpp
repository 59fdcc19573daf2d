// Dispatches `target` with arguments in host memory of the program's own that it registered. Without the driver's SVM
// (HSA_USE_SVM=0) the GPU has that memory at another address. Prints the addresses of the page on both sides, and the
// word's on the GPU. usage: registered_arguments CODE_OBJECT
#include <sys/mman.h>

#include "hsa_kernel.hpp"

int main(int, char** argv) {
  Tally tally("registered_arguments");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], false);
  constexpr std::size_t k_bytes = 4096;
  void* const page = mmap(nullptr, k_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  hsa_agent_t gpu = machine.gpus[0].handle;
  void* seen_by_gpu = nullptr;
  HSA_OK(hsa_amd_memory_lock(page, k_bytes, &gpu, 1, &seen_by_gpu));

  // The argument is the word behind it.
  constexpr std::size_t k_word_at = 64;
  auto* const word = reinterpret_cast<unsigned*>(static_cast<char*>(page) + k_word_at);
  char* const word_on_gpu = static_cast<char*>(seen_by_gpu) + k_word_at;
  *word = 41;
  *static_cast<void**>(page) = word_on_gpu;
  std::printf("on_host %p\non_gpu %p\nword %p\n", page, seen_by_gpu, static_cast<void*>(word_on_gpu));

  hsa_queue_t* queue = nullptr;
  HSA_OK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue));
  const Signal done(1);
  const auto packet = code.dispatch("target", 1, seen_by_gpu, done);
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  done.wait("the target");
  tally.equal("word", 0, *word, 42u);
  HSA_OK(hsa_queue_destroy(queue));
  HSA_OK(hsa_amd_memory_unlock(page));
  return tally.finish();
}
