// What another GPU does beside a captured kernel may be in memory that both reach. Driver and CUPTI are stubs (stub_cuda.hpp), and all
// memory is the host's.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <utility>

#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

const auto k_target = handle<CUfunction>(0x2000);
const auto k_other = handle<CUfunction>(0x3000);
const auto k_stream_of_second = handle<CUstream>(0x9000);
constexpr std::uint32_t k_wait_ms = 2000;
constexpr std::size_t k_bytes = 4096;

CUdevice g_device = 0;                  // that is current
bool g_is_second_busy = false;
int g_asked = 0;                        // the second GPU's stream
std::function<void()> g_before = [] {};   // the state before is taken, and the kernel not launched

void fill() {
  Driver& table = driver_stub();
  table.cuEventRecord = [](CUevent, CUstream) {
    std::exchange(g_before, [] {})();
    return CUDA_SUCCESS;
  };
  table.cuCtxGetDevice = [](CUdevice* device) {
    *device = g_device;
    return CUDA_SUCCESS;
  };
  table.cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset, std::size_t* bytes) {
    *offset = 0;
    *bytes = sizeof(void*);
    return index == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  };
  table.cuStreamQuery = [](CUstream stream) {
    if (stream != k_stream_of_second) return CUDA_SUCCESS;
    ++g_asked;
    return g_is_second_busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  };
}

int* memory() {
  auto* words = static_cast<int*>(std::aligned_alloc(k_bytes, k_bytes));
  std::memset(words, 0, k_bytes);
  return words;
}

void show(CUpti_CallbackId id, const void* parameters) {
  Call call(id, parameters);
  call.enter();
  call.leave();
}

int* allocated(CUdevice device) {
  int* words = memory();
  auto address = reinterpret_cast<CUdeviceptr>(words);
  cuMemAlloc_v2_params parameters{&address, k_bytes};
  g_device = device;
  show(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &parameters);
  g_device = 0;
  return words;
}

void unmap(int* words) {
  cuMemUnmap_params parameters{reinterpret_cast<CUdeviceptr>(words), k_bytes};
  show(CUPTI_DRIVER_TRACE_CBID_cuMemUnmap, &parameters);
}

// `given`: to the kernel.
void run_target(int* given) {
  void* parameters[] = {&given};
  cuLaunchKernel_params launch{};
  launch.f = k_target;
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
  launch.kernelParams = parameters;
  Call call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &launch, "add");
  call.enter();
  call.leave();
}

struct Outcome {
  std::size_t captures = 0;   // that were begun
  std::string failure;

  [[nodiscard]] bool is_whole() const { return captures == 1 && failure.empty(); }
  [[nodiscard]] bool says(const char* text) const { return failure.find(text) != std::string::npos; }
};

Outcome capture_with(Collector& collector, int* given) {
  const Heard before = collector.heard();
  g_asked = 0;
  g_warnings.clear();
  run_target(given);
  g_before = [] {};
  const Heard after = collector.heard();
  return {after.captures.size() - before.captures.size(),
          after.failures.size() == before.failures.size() ? "" : after.failures.back()};
}

bool warned() { return times_warned("another GPU works beside captures") != 0; }

void another_gpu_is_waited_for_and_not_for_long(Collector& collector, int* own) {
  Outcome outcome = capture_with(collector, own);
  CHECK(outcome.is_whole());
  CHECK(g_asked > 0 && !warned());
  g_is_second_busy = true;
  outcome = capture_with(collector, own);
  g_is_second_busy = false;
  CHECK(outcome.is_whole() && warned());
  g_is_second_busy = true;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(capture_with(collector, own).is_whole() && !warned());   // said and waited for at length once
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(500));
  g_is_second_busy = false;
}

// Its state cannot be told from what that GPU writes.
void memory_that_the_kernel_is_given_has_to_come_to_rest(Collector& collector, int* given) {
  Outcome outcome = capture_with(collector, given);
  CHECK(outcome.is_whole());
  g_is_second_busy = true;
  outcome = capture_with(collector, given);
  g_is_second_busy = false;
  CHECK(outcome.says("did not end in time"));
}

// A launch on the second GPU that stands until the state before has been taken.
Outcome capture_beside_stuck_launch(Collector& collector, int* given) {
  std::promise<void> entered;
  std::promise<void> goes_on;
  std::thread other([&] {
    Launch stuck(k_other, 1, nullptr, "other");
    stuck.in(k_context_of_second);
    stuck.enter();
    entered.set_value();
    goes_on.get_future().wait();
    stuck.leave();
  });
  entered.get_future().wait();
  bool has_gone = false;
  g_before = [&] {
    goes_on.set_value();
    other.join();
    has_gone = true;
  };
  const Outcome outcome = capture_with(collector, given);
  if (!has_gone) {
    goes_on.set_value();
    other.join();
  }
  return outcome;
}

void a_launch_that_is_stuck_there(Collector& collector, int* own, int* peers) {
  CHECK(capture_beside_stuck_launch(collector, own).is_whole());
  CHECK(g_asked == 0);
  Outcome outcome = capture_beside_stuck_launch(collector, peers);
  CHECK(outcome.says("the kernel is given memory of another GPU"));
  int* reached = mapped({CU_MEM_LOCATION_TYPE_DEVICE, {0}}, 1);
  outcome = capture_beside_stuck_launch(collector, own);
  CHECK(outcome.says("went on while the state was taken"));
  unmap(reached);
  CHECK(capture_beside_stuck_launch(collector, own).is_whole());
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Collector& collector = start_library({.count = 1000}, k_wait_ms);
  fill();
  std::string cubin = read_file(argv[1]);
  load_cubin(cubin);
  show_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, k_context);
  use_second_device();
  show_resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, k_context_of_second, k_stream_of_second);
  int* own = allocated(0);
  int* peers = allocated(1);
  another_gpu_is_waited_for_and_not_for_long(collector, own);
  memory_that_the_kernel_is_given_has_to_come_to_rest(collector, peers);
  a_launch_that_is_stuck_there(collector, own, peers);
  memory_that_the_kernel_is_given_has_to_come_to_rest(collector, mapped({CU_MEM_LOCATION_TYPE_DEVICE, {1}}, 0));
  return kerncap::test::exit_code();
}
