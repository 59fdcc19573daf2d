// Loads a code object COUNT times, in an executable each, and dispatches from every hundredth and the last; half of
// them are unloaded on the way. Says when it has loaded 100. usage: many_modules CODE_OBJECT COUNT
#include <chrono>
#include <memory>

#include "hsa_kernel.hpp"

int main(int, char** argv) {
  Tally tally("many_modules");
  const Machine machine;
  const int count = std::atoi(argv[2]);
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 1024, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  auto* word = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  auto** argument = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  *word = 0;
  *argument = word;
  unsigned ran = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<CodeObject>> loaded;
  for (int i = 0; i < count; ++i) {
    loaded.push_back(std::make_unique<CodeObject>(machine.gpus[0], argv[1], i % 2 == 0));
    if (i % 100 == 99 || i == count - 1) {
      const Signal done(1);
      const auto packet = loaded.back()->dispatch("target", 1, argument, done);
      submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
      done.wait("the target");
      ++ran;
    } else if (i % 2 == 1) {
      loaded.back()->unload();
    }
    if (i == 99) {
      std::puts("100 loaded");
      std::fflush(stdout);
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("load_ms %.3f\n", took.count() * 1000 / count);
  tally.equal("ran", 0, *word, ran);
  return tally.finish();
}
