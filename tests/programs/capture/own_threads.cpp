// Dispatches the target and prints the names of the process's threads, one on each line. usage: own_threads CODE_OBJECT
#include <filesystem>
#include <fstream>

#include "hsa_kernel.hpp"

int main(int, char** argv) {
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], false);
  hsa_queue_t* queue = nullptr;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  auto* word = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  *arguments = word;
  const Signal done(1);
  const auto packet = code.dispatch("target", 1, arguments, done);
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  done.wait("the target");
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    std::puts(name.c_str());
  }
  HSA_OK(hsa_queue_destroy(queue));
  return 0;
}
