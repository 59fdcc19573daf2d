// Which launches count as dispatches, and which are refused. Driver and CUPTI are stubs (stub_cuda.hpp).
#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

const auto k_function = handle<CUfunction>(0x2000);

// The second dispatch is wanted, and those behind it.
void a_launch_that_fails_is_no_dispatch(Collector& collector) {
  Launch(k_function, 10).run(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  Launch(k_function, 11).run();
  CHECK(collector.heard().captures.empty());
  Launch(k_function, 12).run();
  const Heard heard = collector.heard();
  CHECK(heard.captures.size() == 1 && heard.captures[0].index_of_kernel == 1 && heard.captures[0].grid_x == 12);
  CHECK(heard.failures.empty());
}

void one_that_fails_while_it_is_captured_leaves_its_number_to_the_next(Collector& collector) {
  Launch(k_function, 13).run(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK(collector.heard().failures.size() == 1);
  Launch(k_function, 14).run();
  const std::vector<Captured> captures = collector.heard().captures;
  CHECK(captures.size() == 3 && captures[1].index_of_kernel == 2 && captures[2].index_of_kernel == 2);
  CHECK(captures[1].grid_x == 13 && captures[2].grid_x == 14);
}

// What is recorded into a graph does not run, and was not counted.
void one_that_fails_in_a_recording_takes_no_number_back(Collector& collector) {
  driver_stub().cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  };
  Launch(k_function, 15, handle<CUstream>(0x3000)).run(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  driver_stub().cuStreamIsCapturing = NoOp<decltype(Driver::cuStreamIsCapturing)>::call;
  Launch(k_function, 16).run();
  const std::vector<Captured> captures = collector.heard().captures;
  CHECK(captures.size() == 4 && captures[3].index_of_kernel == 3 && captures[3].grid_x == 16);
}

void one_as_in_cuda_3_is_refused_by_name(Collector& collector) {
  const std::size_t captures = collector.heard().captures.size();
  cuLaunchGrid_params parameters{k_function, 4, 1};
  Call launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid, &parameters, "add");
  launch.enter();
  launch.leave();
  const Heard heard = collector.heard();
  CHECK(heard.captures.size() == captures && heard.failures.back().find("cuLaunchGrid") != std::string::npos);
}

// The driver's to refuse.
void nothing_to_launch_is_no_harm(Collector& collector) {
  const Heard before = collector.heard();
  cuLaunchKernelEx_params parameters{};
  Call launch(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, &parameters);
  launch.enter();
  launch.leave(CUDA_ERROR_INVALID_VALUE);
  Launch(nullptr).run(CUDA_ERROR_INVALID_HANDLE);
  const Heard after = collector.heard();
  CHECK(after.captures.size() == before.captures.size() && after.failures.size() == before.failures.size());
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Collector& collector = start_library({.first = 1, .count = 100});
  std::string cubin = read_file(argv[1]);
  load_cubin(cubin);
  a_launch_that_fails_is_no_dispatch(collector);
  one_that_fails_while_it_is_captured_leaves_its_number_to_the_next(collector);
  one_that_fails_in_a_recording_takes_no_number_back(collector);
  one_as_in_cuda_3_is_refused_by_name(collector);
  nothing_to_launch_is_no_harm(collector);
  return kerncap::test::exit_code();
}
