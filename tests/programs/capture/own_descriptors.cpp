// Dispatches kernel descriptors that are not the loader's: `copied` runs `target` from a copy of its code object in
// memory of the program's own, `altered` has the descriptor of `unread` lead to the code of `target`. `other`, as it
// was loaded, is dispatched after that. usage: own_descriptors CODE_OBJECT copied|altered
#include <hsa/hsa_ven_amd_loader.h>

#include "hsa_kernel.hpp"

namespace {

// Of an amdhsa kernel descriptor: from its own address to the kernel's first instruction.
constexpr std::size_t k_entry_offset = 16;

struct Image {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
};

Image image_of(hsa_executable_t executable) {
  hsa_ven_amd_loader_1_01_pfn_t loader{};
  HSA_OK(hsa_system_get_major_extension_table(HSA_EXTENSION_AMD_LOADER, 1, sizeof loader, &loader));
  hsa_loaded_code_object_t loaded{};
  HSA_OK(loader.hsa_ven_amd_loader_executable_iterate_loaded_code_objects(
      executable,
      [](hsa_executable_t, hsa_loaded_code_object_t found, void* out) {
        *static_cast<hsa_loaded_code_object_t*>(out) = found;
        return HSA_STATUS_SUCCESS;
      },
      &loaded));
  Image image;
  HSA_OK(loader.hsa_ven_amd_loader_loaded_code_object_get_info(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE, &image.base));
  HSA_OK(loader.hsa_ven_amd_loader_loaded_code_object_get_info(
      loaded, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE, &image.bytes));
  return image;
}

std::uint64_t copy_of(const Machine& machine, const Image& image) {
  void* memory = nullptr;
  HSA_OK(hsa_amd_memory_pool_allocate(machine.gpus[0].coarse().handle, image.bytes, HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG,
                                      &memory));
  HSA_OK(hsa_memory_copy(memory, reinterpret_cast<void*>(image.base), image.bytes));
  return reinterpret_cast<std::uint64_t>(memory);
}

void lead_to(std::uint64_t descriptor, std::uint64_t other_descriptor) {
  std::int64_t offset = 0;
  HSA_OK(hsa_memory_copy(&offset, reinterpret_cast<void*>(other_descriptor + k_entry_offset), sizeof offset));
  offset += static_cast<std::int64_t>(other_descriptor - descriptor);
  HSA_OK(hsa_memory_copy(reinterpret_cast<void*>(descriptor + k_entry_offset), &offset, sizeof offset));
}

void run(hsa_queue_t* queue, const hsa_kernel_dispatch_packet_t& packet, const Signal& done) {
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), packet.setup);
  done.wait("a dispatch");
}

}  // namespace

int main(int, char** argv) {
  Tally tally("own_descriptors");
  const Machine machine;
  const CodeObject code(machine.gpus[0], argv[1], false);
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 128, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX,
                          &queue));
  auto* word = static_cast<unsigned*>(kernarg_memory(machine, 4096));
  auto** arguments = static_cast<unsigned**>(kernarg_memory(machine, 4096));
  arguments[0] = word;

  const Signal done(1);
  hsa_kernel_dispatch_packet_t target = code.dispatch("target", 1, arguments, done);
  hsa_kernel_dispatch_packet_t first = target;
  if (std::string(argv[2]) == "copied") {
    const Image image = image_of(code.executable());
    first.kernel_object += copy_of(machine, image) - image.base;
  } else {
    first = code.dispatch("unread", 1, arguments, done);
    lead_to(first.kernel_object, target.kernel_object);
  }
  run(queue, first, done);
  tally.equal("word", 0, word[0], 1u);

  const Signal other_done(1);
  run(queue, code.dispatch("other", 1, arguments, other_done), other_done);
  tally.equal("word", 1, word[0], 2u);
  HSA_OK(hsa_queue_destroy(queue));
  return tally.finish();
}
