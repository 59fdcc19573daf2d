// Code objects that no GPU should run, loaded through ROCr alone: another target's, cut off, damaged, and whole ones whose
// kernel asks for impossible registers. Each is an error of ROCr's or of the queue's callback; other queues go on.
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include <hip/hip_runtime.h>

#include "hsa_check.hpp"
#include "own_code_object.hpp"

__global__ void victim(int* out) { out[threadIdx.x] = 1; }

namespace {

std::atomic<int> g_status{-1};
void on_error(hsa_status_t status, hsa_queue_t*, void*) { g_status = static_cast<int>(status); }

Elf64_Ehdr& header_of(Bytes& object) { return *reinterpret_cast<Elf64_Ehdr*>(object.data()); }

// The kernel descriptor in the file.
char* descriptor_of(Bytes& object) {
  const Elf64_Ehdr& header = header_of(object);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(object.data() + header.e_shoff);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(object.data() + sections[i].sh_offset);
    const char* names = object.data() + sections[sections[i].sh_link].sh_offset;
    for (std::size_t k = 0; k < sections[i].sh_size / sizeof(Elf64_Sym); ++k) {
      if (!std::string_view(names + symbols[k].st_name).ends_with(".kd")) continue;
      const Elf64_Shdr& home = sections[symbols[k].st_shndx];
      return object.data() + home.sh_offset + (symbols[k].st_value - home.sh_addr);
    }
  }
  std::exit(2);
}

template <typename T>
void put(char* at, T value) { std::memcpy(at, &value, sizeof value); }

struct Loaded {
  hsa_status_t status = HSA_STATUS_SUCCESS;
  hsa_executable_t executable{};
  hsa_code_object_reader_t reader{};
  std::uint64_t kernel_object = 0;
};

hsa_status_t on_symbol(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t symbol, void* out) {
  hsa_symbol_kind_t kind;
  HSA_OK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, &kind));
  if (kind == HSA_SYMBOL_KIND_KERNEL) HSA_OK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, out));
  return HSA_STATUS_SUCCESS;
}

// From memory that ends where the code object does, or from a file.
Loaded load(hsa_agent_t gpu, const Bytes& object, bool from_file = false) {
  Loaded loaded;
  if (from_file) {
    const int file = memfd_create("code-object", 0);
    if (write(file, object.data(), object.size()) != static_cast<ssize_t>(object.size())) std::exit(2);
    loaded.status = hsa_code_object_reader_create_from_file(file, &loaded.reader);
  } else {
    const std::size_t pages = (object.size() + 4095) / 4096 * 4096;
    char* memory = static_cast<char*>(mmap(nullptr, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory + pages, 4096, PROT_NONE);
    std::memcpy(memory + pages - object.size(), object.data(), object.size());
    loaded.status = hsa_code_object_reader_create_from_memory(memory + pages - object.size(), object.size(), &loaded.reader);
  }
  if (loaded.status != HSA_STATUS_SUCCESS) return loaded;
  HSA_OK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr, &loaded.executable));
  loaded.status = hsa_executable_load_agent_code_object(loaded.executable, gpu, loaded.reader, nullptr, nullptr);
  if (loaded.status == HSA_STATUS_SUCCESS) loaded.status = hsa_executable_freeze(loaded.executable, nullptr);
  if (loaded.status == HSA_STATUS_SUCCESS)
    HSA_OK(hsa_executable_iterate_agent_symbols(loaded.executable, gpu, on_symbol, &loaded.kernel_object));
  return loaded;
}

void unload(const Loaded& loaded) {
  if (loaded.executable.handle != 0) HSA_OK(hsa_executable_destroy(loaded.executable));
  if (loaded.reader.handle != 0) HSA_OK(hsa_code_object_reader_destroy(loaded.reader));
}

}  // namespace

int main() {
  const Machine machine;
  Tally tally("bad_code_objects");
  const hsa_agent_t gpu = machine.gpus[0].handle;
  const Bytes self = read_file("/proc/self/exe");
  const FatBinary own = own_fat_binary(self);
  const Bytes whole(self.begin() + own.object_begin, self.begin() + own.object_end);

  const auto run = [&](const Loaded& loaded, const Signal& done) {
    g_status = -1;
    hsa_queue_t* queue;
    HSA_OK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, on_error, nullptr, UINT32_MAX, UINT32_MAX, &queue));
    void* memory = nullptr;
    HSA_OK(hsa_amd_memory_pool_allocate(machine.cpus[0].fine().handle, 4096, 0, &memory));
    HSA_OK(hsa_amd_agents_allow_access(1, &gpu, nullptr, memory));
    std::memset(memory, 0, 4096);
    *static_cast<void**>(memory) = static_cast<char*>(memory) + 1024;  // the kernel's argument
    hsa_kernel_dispatch_packet_t packet{};
    packet.grid_size_x = packet.workgroup_size_x = 64;
    packet.grid_size_y = packet.grid_size_z = packet.workgroup_size_y = packet.workgroup_size_z = 1;
    packet.kernel_object = loaded.kernel_object;
    packet.kernarg_address = memory;
    packet.completion_signal = done;
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true), 1);
    for (int i = 0; g_status == -1 && i < 60000; ++i)
      if (hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, 1000000, HSA_WAIT_STATE_BLOCKED) < 1) break;
    HSA_OK(hsa_queue_destroy(queue));
    HSA_OK(hsa_amd_memory_pool_free(memory));
  };

  // It is whole, and runs.
  {
    const Loaded loaded = load(gpu, whole);
    tally.equal("the whole one loads", 0, static_cast<int>(loaded.status), static_cast<int>(HSA_STATUS_SUCCESS));
    const Signal done(1);
    run(loaded, done);
    tally.expect(g_status == -1 && hsa_signal_load_scacquire(done) == 0, "the whole one runs", 0, g_status, -1);
    unload(loaded);
  }

  const auto refused = [&](const char* what, const std::function<void(Bytes&)>& damage) {
    Bytes object = whole;
    damage(object);
    for (const bool from_file : {false, true}) {
      const Loaded loaded = load(gpu, object, from_file);
      const char* text = nullptr;
      hsa_status_string(loaded.status, &text);
      tally.expect(loaded.status != HSA_STATUS_SUCCESS && text != nullptr, what, from_file, loaded.status, HSA_STATUS_ERROR_INVALID_CODE_OBJECT);
      unload(loaded);
    }
  };
  constexpr unsigned k_mach_mask = 0xff, k_gfx906 = 0x2f;
  refused("another target's", [](Bytes& o) { header_of(o).e_flags = (header_of(o).e_flags & ~k_mach_mask) | k_gfx906; });
  constexpr unsigned k_xnack_mask = 0x300, k_xnack_on = 0x300, k_sramecc_mask = 0xc00, k_sramecc_off = 0x800;
  refused("xnack+", [](Bytes& o) { header_of(o).e_flags = (header_of(o).e_flags & ~k_xnack_mask) | k_xnack_on; });
  refused("sramecc-", [](Bytes& o) { header_of(o).e_flags = (header_of(o).e_flags & ~k_sramecc_mask) | k_sramecc_off; });
  refused("another machine's", [](Bytes& o) { header_of(o).e_machine = EM_X86_64; });
  refused("no ELF file", [](Bytes& o) { o[0] = 'X'; });
  refused("text", [](Bytes& o) { o.assign(1000, 'a'); });
  refused("a header alone", [](Bytes& o) { o.resize(sizeof(Elf64_Ehdr)); });
  refused("a part of the header", [](Bytes& o) { o.resize(20); });
  refused("its first half", [](Bytes& o) { o.resize(o.size() / 2); });
  refused("all but a word", [](Bytes& o) { o.resize(o.size() - 4); });
  refused("sections beyond the end", [](Bytes& o) { header_of(o).e_shoff += 1 << 20; });
  refused("segments beyond the end", [](Bytes& o) { reinterpret_cast<Elf64_Phdr*>(&o[header_of(o).e_phoff])[1].p_filesz += 1 << 30; });
  refused("32-bit", [](Bytes& o) { o[EI_CLASS] = ELFCLASS32; });

  // Damaged at random: refused or not, but never the end of this process.
  Random random(5);
  unsigned taken = 0;
  for (int i = 0; i < 150; ++i) {
    Bytes object = whole;
    const std::size_t sections = header_of(object).e_shoff;
    for (int k = random.whole(1, 4); k != 0; --k) {
      // Where the file speaks of itself: headers, symbols, notes.
      const std::size_t from = random.whole(0, 2) == 0 ? 0 : sections, to = from == 0 ? 1024 : object.size();
      object[from + random.bits() % (to - from)] ^= static_cast<char>(1u << random.whole(0, 8));
    }
    const Loaded loaded = load(gpu, object);
    taken += loaded.status == HSA_STATUS_SUCCESS;
    unload(loaded);
  }
  tally.expect(taken < 150, "damaged at random", 0, taken, 0);

  // Loads, as the runtime does not look at it; the packet processor does.
  const auto stopped = [&](const char* what, const std::function<void(char*)>& damage) {
    Bytes object = whole;
    damage(descriptor_of(object));
    const Loaded loaded = load(gpu, object);
    tally.equal(what, 0, static_cast<int>(loaded.status), static_cast<int>(HSA_STATUS_SUCCESS));
    const Signal done(1);
    run(loaded, done);
    tally.expect(g_status > 0 && hsa_signal_load_scacquire(done) == 1, what, 1, g_status, HSA_STATUS_ERROR_INVALID_CODE_OBJECT);
    unload(loaded);
  };
  stopped("more SGPRs than there are", [](char* d) { put<std::uint32_t>(d + 48, *reinterpret_cast<std::uint32_t*>(d + 48) | 15U << 6); });
  stopped("AGPRs beyond its registers", [](char* d) { put<std::uint32_t>(d + 44, 63); });
  stopped("31 user SGPRs", [](char* d) { put<std::uint32_t>(d + 52, *reinterpret_cast<std::uint32_t*>(d + 52) | 31U << 1); });
  stopped("waves of 32 lanes", [](char* d) { put<std::uint16_t>(d + 56, static_cast<std::uint16_t>(*reinterpret_cast<std::uint16_t*>(d + 56) | 1U << 10)); });
  stopped("an entry that is not aligned", [](char* d) { put<std::int64_t>(d + 16, *reinterpret_cast<std::int64_t*>(d + 16) + 4); });
  return tally.finish();
}
