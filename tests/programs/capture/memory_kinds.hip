// One kernel that adds one to a word in each kind of memory that HIP, or CUDA, gives. Prints "KIND ADDRESS".
#include "hip_check.hpp"

__constant__ int constant_word = 40;
__device__ int global_word = 50;

struct Words {
  int* word[7];
};

__global__ void target(Words words) {
  for (int* word : words.word) *word += constant_word - 39;
  global_word += 1;
}

// A mapping that is left makes HIP crash when it ends.
static hipMemGenericAllocationHandle_t g_handle;

static int* mapped(std::size_t& bytes) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  properties.location.id = 0;
  HIP_OK(hipMemGetAllocationGranularity(&bytes, &properties, hipMemAllocationGranularityRecommended));
  HIP_OK(hipMemCreate(&g_handle, bytes, &properties, 0));
  void* address = nullptr;
  HIP_OK(hipMemAddressReserve(&address, bytes, 0, nullptr, 0));
  HIP_OK(hipMemMap(address, bytes, 0, g_handle, 0));
  hipMemAccessDesc access{};
  access.location = properties.location;
  access.flags = hipMemAccessFlagsProtReadWrite;
  HIP_OK(hipMemSetAccess(address, bytes, &access, 1));
  return static_cast<int*>(address);
}

int main() {
  Tally tally("memory_kinds");
  Words words{};
  std::size_t bytes = 0;
  HIP_OK(hipMalloc(reinterpret_cast<void**>(&words.word[0]), 4096));
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&words.word[1]), 4096, 0));
  constexpr std::size_t k_registered_bytes = 4 * 4096;
  void* registered = std::aligned_alloc(4096, k_registered_bytes);
  HIP_OK(hipHostRegister(registered, k_registered_bytes, hipHostRegisterDefault));
  HIP_OK(hipHostGetDevicePointer(reinterpret_cast<void**>(&words.word[2]), registered, 0));
  HIP_OK(hipMallocManaged(reinterpret_cast<void**>(&words.word[3]), 4096));
  std::size_t mapped_bytes = 0;
  words.word[4] = mapped(mapped_bytes);
  HIP_OK(hipMallocAsync(reinterpret_cast<void**>(&words.word[5]), 4096, nullptr));
  HIP_OK(hipMallocPitch(reinterpret_cast<void**>(&words.word[6]), &bytes, 100, 30));
  for (int i = 0; i < 7; ++i) {
    const int value = 10 * i;
    HIP_OK(hipMemcpy(words.word[i], &value, sizeof value, hipMemcpyDefault));
  }
  target<<<1, 1>>>(words);
  HIP_DONE();
  const char* names[] = {"device", "pinned", "registered", "managed", "vmem", "async", "pitched"};
  for (int i = 0; i < 7; ++i) {
    int value = 0;
    HIP_OK(hipMemcpy(&value, words.word[i], sizeof value, hipMemcpyDefault));
    tally.equal(names[i], i, value, 10 * i + 1);
    std::printf("%s %p\n", names[i], static_cast<void*>(words.word[i]));
  }
  void* global = nullptr;
  HIP_OK(hipGetSymbolAddress(&global, HIP_SYMBOL(global_word)));
  std::printf("global %p\n", global);
  HIP_OK(hipMemUnmap(words.word[4], mapped_bytes));
  HIP_OK(hipMemRelease(g_handle));
  HIP_OK(hipMemAddressFree(words.word[4], mapped_bytes));
  return tally.finish();
}
