// Ordinary memory of the host that a device reaches by itself (HMM, ATS) is in no capture, which is said. Driver and CUPTI are stubs
// (stub_cuda.hpp), and all memory is the host's.
#include <array>

#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

using Words = std::array<std::uint64_t, 2>;

std::size_t g_parameter_bytes = 8;

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

// What is said of a capture of a kernel with both words as its parameters, of 8 bytes each or one of 16.
std::ptrdiff_t warnings_of(Collector& collector, Words words, std::size_t parameter_bytes = 8) {
  g_parameter_bytes = parameter_bytes;
  g_warnings.clear();
  const Heard before = collector.heard();
  void* parameters[] = {&words[0], &words[1]};
  cuLaunchKernel_params launch{};
  launch.f = handle<CUfunction>(0x2000);
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
  launch.kernelParams = parameters;
  Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &launch, "add");
  call.enter();
  call.leave();
  const Heard after = collector.heard();
  CHECK(after.captures.size() == before.captures.size() + 1 && after.failures.size() == before.failures.size());
  return times_warned("ordinary memory of the host");
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Collector& collector = start_library({.count = 1000}, 2000);
  use_host_memory();
  driver_stub().cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset, std::size_t* bytes) {
    *offset = index * g_parameter_bytes;
    *bytes = g_parameter_bytes;
    return index * g_parameter_bytes < sizeof(Words) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  std::string cubin = read_file(argv[1]);
  load_cubin(cubin);
  void* known = std::aligned_alloc(4096, 4096);
  CUdeviceptr made = address_of(known);
  cuMemAlloc_v2_params parameters{&made, 4096};
  Call allocate(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &parameters);
  allocate.enter();
  allocate.leave();
  static int s_ordinary = 0;
  const std::uint64_t ordinary = address_of(&s_ordinary);
  g_known_pages.insert(address_of(known) / 4096);

  CHECK(warnings_of(collector, {address_of(known), ordinary}) == 0);   // no device reaches it
  reach_ordinary_memory();
  CHECK(warnings_of(collector, {address_of(known), 4096}) == 0);       // nothing is mapped there
  CHECK(warnings_of(collector, {address_of(known) + 4096, 0}) == 0);   // an end
  CHECK(warnings_of(collector, {0, ordinary}, sizeof(Words)) == 0);    // what stood on a stack, maybe
  CHECK(warnings_of(collector, {address_of(known), ordinary}) == 1);
  CHECK(warnings_of(collector, {address_of(known), ordinary}) == 0);   // said once
  return kerncap::test::exit_code();
}
