// bad_images SHAPE DOOR SEED COUNT [FROM]: damaged images through HIP's ways in. Each must end as an answer of HIP's, never as the
// end of this program. SHAPE is elf, a code object alone, or bundle, the fat binary in this executable (compressed where it was
// compiled so). DOOR is file, memory or register; on ROCm 7.2 file and memory stand for the newer names, too. The first half
// of the cases are cut off, the others changed; they begin with number FROM.
//
// Cases run in a child, so that one that dies is counted, named, and followed by the others.
#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "hip_check.hpp"
#include "own_code_object.hpp"

// Arguments of each kind, so that the metadata has something to be damaged.
struct Three { int a; double b; char c; };
__device__ int counter = 5;
__constant__ float factors[4] = {1, 2, 3, 4};
extern "C" __global__ void victim(int* out, float factor, Three three) {
  __shared__ int lds[64];
  lds[threadIdx.x] = three.a + counter;
  __syncthreads();
  out[threadIdx.x] = lds[63 - threadIdx.x] + static_cast<int>(factor * factors[1]);
}
extern "C" __global__ void other(double* out, long n) { if (n > 0) out[threadIdx.x] = static_cast<double>(n); }

// What clang's host code calls before main().
extern "C" void** __hipRegisterFatBinary(const void* wrapper);
extern "C" void __hipRegisterFunction(void** module, const void* host, char* device, const char* name, unsigned, void*, void*, void*, void*, int*);
extern "C" void __hipUnregisterFatBinary(void** module);

namespace {

struct Progress {  // of the child, seen by the parent
  volatile int next;
  int taken, refused;
  char what[256];
};

// Where a code object speaks of itself: headers, then notes, symbols and their names, descriptors; and the tables at its end.
struct Place { std::size_t begin, end; };
std::vector<Place> telling_places(const Bytes& object, std::size_t at) {
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(object.data() + at);
  std::vector<Place> places = {{0, sizeof *header}, {header->e_phoff, header->e_phoff + header->e_phnum * sizeof(Elf64_Phdr)},
                               {header->e_shoff, header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr)}};
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(object.data() + at + header->e_shoff);
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr& section = sections[i];
    const std::string_view name = object.data() + at + sections[header->e_shstrndx].sh_offset + section.sh_name;
    const bool speaks = section.sh_type == SHT_NOTE || section.sh_type == SHT_DYNSYM || section.sh_type == SHT_SYMTAB ||
                        section.sh_type == SHT_STRTAB || section.sh_type == SHT_DYNAMIC || section.sh_type == SHT_HASH || name == ".rodata";
    // Notes hold the metadata: half of all damage.
    for (int k = section.sh_type == SHT_NOTE ? 8 : 1; speaks && k != 0; --k) places.push_back({section.sh_offset, section.sh_offset + section.sh_size});
  }
  for (Place& place : places) place.begin += at, place.end += at;
  return places;
}

// An image in memory that ends where it does, as far as pages allow, with nothing after it.
class Guarded {
 public:
  explicit Guarded(const Bytes& image) : m_bytes((image.size() + 4095) / 4096 * 4096) {
    m_pages = static_cast<char*>(mmap(nullptr, m_bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(m_pages + m_bytes, 4096, PROT_NONE);
    m_image = m_pages + (image.size() % 8 == 0 ? m_bytes - image.size() : 0);
    std::memcpy(m_image, image.data(), image.size());
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(m_pages, m_bytes + 4096); }
  [[nodiscard]] void* get() const { return m_image; }

 private:
  std::size_t m_bytes;
  char* m_pages;
  char* m_image;
};

// A module that was taken is asked for what the runtime reads from it.
bool question(hipModule_t module) {
  hipFunction_t function;
  int value = 0;
  for (const char* name : {"victim", "other"}) {
    if (hipModuleGetFunction(&function, module, name) != hipSuccess) continue;
    (void)hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    (void)hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 64, 0);
  }
  void* address = nullptr;
  std::size_t size = 0;
  (void)hipModuleGetGlobal(&address, &size, module, "counter");
  (void)hipModuleUnload(module);
  return true;
}

#if HIP_VERSION >= 70200000
hipJitOption* const no_jit_options = nullptr;
hipLibraryOption* const no_options = nullptr;

bool question(hipLibrary_t library) {
  hipKernel_t kernel;
  (void)hipLibraryGetKernel(&kernel, library, "victim");
  (void)hipLibraryUnload(library);
  return true;
}
#endif

bool through_file(const Bytes& image, int number) {
  const std::string path = "/tmp/kerncap-bad-image-" + std::to_string(getpid()) + "-" + std::to_string(number);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(image.data(), 1, image.size(), file) != image.size() || std::fclose(file) != 0) std::exit(2);
  bool taken = false;
#if HIP_VERSION >= 70200000
  hipLibrary_t library;
  if (number % 2 == 1) {
    taken = hipLibraryLoadFromFile(&library, path.c_str(), no_jit_options, nullptr, 0, no_options, nullptr, 0) == hipSuccess && question(library);
    std::remove(path.c_str());
    return taken;
  }
#endif
  hipModule_t module;
  taken = hipModuleLoad(&module, path.c_str()) == hipSuccess && question(module);
  std::remove(path.c_str());
  return taken;
}

bool through_memory(const Bytes& image, int number) {
  const Guarded memory(image);
  hipModule_t module;
#if HIP_VERSION >= 70200000
  hipLibrary_t library;
  if (number % 4 == 2) return hipLibraryLoadData(&library, memory.get(), no_jit_options, nullptr, 0, no_options, nullptr, 0) == hipSuccess && question(library);
  if (number % 4 == 3) return hipModuleLoadFatBinary(&module, memory.get()) == hipSuccess && question(module);
#endif
  if (number % 2 == 0) return hipModuleLoadData(&module, memory.get()) == hipSuccess && question(module);
  return hipModuleLoadDataEx(&module, memory.get(), 0, nullptr, nullptr) == hipSuccess && question(module);
}

// As clang's host code does it, and then a question about the kernel: the runtime reads the image now.
bool through_register(const Bytes& image, int) {
  struct Wrapper { std::uint32_t magic, version; void* image; void* unused; };
  // Left where they are: the runtime keeps the wrapper's address.
  const auto* memory = new Guarded(image);
  const auto* wrapper = new Wrapper{0x48495046, 1, memory->get(), nullptr};
  const auto* stub = new char;
  void** module = __hipRegisterFatBinary(wrapper);
  if (module == nullptr) return false;
  std::string name = "victim";
  __hipRegisterFunction(module, stub, name.data(), name.data(), ~0U, nullptr, nullptr, nullptr, nullptr, nullptr);
  hipFuncAttributes attributes;
  const bool taken = hipFuncGetAttributes(&attributes, stub) == hipSuccess;
  __hipUnregisterFatBinary(module);
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const std::string_view shape = argv[1], door = argv[2];
  const int seed = std::atoi(argv[3]), count = std::atoi(argv[4]), first = argc > 5 ? std::atoi(argv[5]) : 0;
  Tally tally("bad_images");
  const Bytes self = read_file("/proc/self/exe");
  const FatBinary own = own_fat_binary(self);
  const Bytes whole = shape == "elf" ? Bytes(self.begin() + own.object_begin, self.begin() + own.object_end)
                                     : Bytes(self.begin() + own.begin, self.begin() + own.end);
  auto* progress = static_cast<Progress*>(mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto load = [&](const Bytes& image, int number) {
    return door == "file" ? through_file(image, number) : door == "memory" ? through_memory(image, number) : through_register(image, number);
  };
  const auto cut = [&](Bytes& image, int number) {
    image.resize(static_cast<std::size_t>(static_cast<double>(whole.size()) * number / (count / 2)));
    if (number % 3 == 0) image.resize(image.size() / 8 * 8);
    std::snprintf(progress->what, sizeof progress->what, "cut to %zu of %zu", image.size(), whole.size());
  };
  std::vector<Place> places;
  if (shape == "elf") places = telling_places(whole, 0);
  if (shape == "bundle" && !own.compressed) places = telling_places(whole, static_cast<std::size_t>(own.object_begin - own.begin));
  // A third of the damage to a bundle is to what is its own.
  for (std::size_t i = places.size() / 2 + 1; shape == "bundle" && i != 0; --i) places.push_back({0, own.compressed ? 40U : 192U});
  if (shape == "bundle" && own.compressed) places.push_back({0, whole.size()});
  const auto change = [&](Bytes& image, int number) {
    Random random(static_cast<std::uint64_t>(seed) * 1000003 + static_cast<std::uint64_t>(number));
    std::string what;
    for (int k = random.whole(1, 4); k != 0; --k) {
      const Place place = places[random.bits() % places.size()];
      const std::size_t at = place.begin + random.bits() % (place.end - place.begin);
      const char before = image[at];
      image[at] = random.whole(0, 4) == 0 ? static_cast<char>(random.whole(0, 2) - 1) : static_cast<char>(before ^ (1 << random.whole(0, 8)));
      what += "byte " + std::to_string(at) + " " + std::to_string(before & 255) + " -> " + std::to_string(image[at] & 255) + " ";
    }
    std::snprintf(progress->what, sizeof progress->what, "%s", what.c_str());
  };
  const auto run_case = [&](int number) {
    Bytes image = whole;
    const bool is_cut = number < count / 2;
    is_cut ? cut(image, number) : change(image, number);
    const bool taken = load(image, number);
    ++(taken ? progress->taken : progress->refused);
    // Memory that does not end there goes on with zeros, which may be what was cut off.
    const bool ends_there = door == "file" || image.size() % 8 == 0;
    tally.expect(!taken || !is_cut || !ends_there, "taken, although cut: case", static_cast<std::size_t>(number), taken, 0);
  };

  int died = 0;
  for (progress->next = first; progress->next < count;) {
    const pid_t child = fork();
    if (child == 0) {
      // The whole image is taken; otherwise nothing below means anything.
      tally.expect(load(whole, 0) && load(whole, 1) && load(whole, 2) && load(whole, 3), "the whole image is taken", 0, 0, 1);
      for (; progress->next < count; progress->next = progress->next + 1) run_case(progress->next);
      std::_Exit(tally.finish());
    }
    int status = 0, seen = -1;
    for (int idle_ms = 0; waitpid(child, &status, WNOHANG) == 0; usleep(10000)) {
      if (seen != progress->next) seen = progress->next, idle_ms = 0;
      if ((idle_ms += 10) > 30000) kill(child, SIGKILL);
    }
    if (WIFEXITED(status) && progress->next == count) {
      tally.expect(WEXITSTATUS(status) == 0, "the child's verdict", 0, WEXITSTATUS(status), 0);
      break;
    }
    ++died;
    std::printf("status %#x, case %d of %s through %s: %s\n", status, progress->next, argv[1], argv[2], progress->what);
    std::fflush(stdout);
    progress->next = progress->next + 1;
  }
  std::printf("%d taken, %d refused, %d died\n", progress->taken, progress->refused, died);
  tally.equal("cases that ended the program", 0, died, 0);
  return tally.finish();
}
