// How the library leaves behind its last capture: CUPTI goes where that harms nobody, else the subscriber alone does. Driver and CUPTI
// are stubs (stub_cuda.hpp), and each case is a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

constexpr CUpti_CallbackId k_wait = CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize;
const auto k_function = handle<CUfunction>(0x2000);
const auto k_other = handle<CUfunction>(0x4000);
std::string g_cubin;
std::atomic<int> g_finalized{0};
std::atomic<int> g_unsubscribed{0};
std::atomic<CUresult> g_all_work{CUDA_SUCCESS};

Cupti& cupti_stub() { return const_cast<Cupti&>(cupti()); }

void start() {
  start_library({});
  cupti_stub().cuptiGetVersion = [](std::uint32_t* version) {
    *version = 130001;
    return CUPTI_SUCCESS;
  };
  cupti_stub().cuptiFinalize = [] {
    ++g_finalized;
    return CUPTI_SUCCESS;
  };
  cupti_stub().cuptiUnsubscribe = [](CUpti_SubscriberHandle) {
    ++g_unsubscribed;
    return CUPTI_SUCCESS;
  };
  driver_stub().cuEventQuery = [](CUevent) { return g_all_work.load(); };
  CUpti_ResourceData data{};
  data.context = k_context;
  g_callback(g_subscribed_with, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &data);
  load_cubin(g_cubin);
}

template <typename Condition>
bool soon(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds(5)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

// The one dispatch that is wanted; then the library waits for a moment at which it can leave.
void capture() {
  Launch(k_function).run();
  CHECK(soon([] { return g_tool->own.leaving.load(); }));
}

void wait_in_the_driver(CUpti_CallbackId id = k_wait) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));   // looks are 1 ms apart
  Call call(id, nullptr);
  call.enter();
  call.leave();
}

void cupti_goes_behind_a_call_that_waited() {
  start();
  capture();
  CHECK(g_finalized == 0 && g_unsubscribed == 0);
  Launch(k_function).enter();
  CHECK(g_finalized == 0);
  Launch(k_function).leave();
  wait_in_the_driver();
  CHECK(g_finalized == 1 && !g_tool->own.enabled && !g_tool->own.leaving);
  wait_in_the_driver();
  CHECK(!soon([] { return g_unsubscribed != 0 || g_finalized != 1; }, std::chrono::milliseconds(50)));
}

void a_copy_that_waited_is_as_good() {
  start();
  capture();
  wait_in_the_driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2);
  CHECK(g_finalized == 1);
}

void nothing_goes_while_something_runs() {
  start();
  capture();
  g_all_work = CUDA_ERROR_NOT_READY;
  wait_in_the_driver();
  CHECK(g_finalized == 0 && g_unsubscribed == 0);
  g_all_work = CUDA_SUCCESS;
  wait_in_the_driver();
  CHECK(g_finalized == 1);
}

void nothing_goes_while_a_graph_is_recorded() {
  start();
  capture();
  g_tool->streams.created(k_context, handle<CUstream>(0x3000));
  driver_stub().cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    *status = stream == CU_STREAM_LEGACY ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  };
  driver_stub().cuCtxRecordEvent = [](CUcontext, CUevent) -> CUresult { std::abort(); };   // it would spoil the recording
  wait_in_the_driver();
  CHECK(g_finalized == 0);
}

// Whatever it does: CUPTI may be left by no thread that another one may be beside.
void the_subscriber_alone_goes_where_two_threads_call() {
  start();
  std::thread([] { wait_in_the_driver(); }).join();
  Launch(k_function).run();
  CHECK(soon([] { return g_unsubscribed == 1; }));
  CHECK(g_finalized == 0);
}

void nothing_goes_once_another_thread_has_launched() {
  start();
  capture();
  std::thread([] { Launch(k_function).run(); }).join();
  wait_in_the_driver();
  CHECK(g_finalized == 0);
}

void nor_where_that_launch_was_only_counted() {
  start();
  for (int i = 0; i < 2; ++i) Launch(k_other, 1, nullptr, "other").run();   // the second is in the table
  capture();
  std::thread([] { Launch(k_other, 1, nullptr, "other").run(); }).join();
  wait_in_the_driver();
  CHECK(g_finalized == 0);
}

void the_subscriber_alone_goes_where_the_program_takes_records_itself() {
  start();
  cupti_stub().cuptiActivityEnable = [](CUpti_ActivityKind) { return CUPTI_ERROR_NOT_COMPATIBLE; };
  capture();
  wait_in_the_driver();
  CHECK(soon([] { return g_unsubscribed == 1; }));
  CHECK(g_finalized == 0);
}

void or_where_cupti_is_older() {
  start();
  cupti_stub().cuptiGetVersion = [](std::uint32_t* version) {
    *version = 23;
    return CUPTI_SUCCESS;
  };
  Launch(k_function).run();
  CHECK(soon([] { return g_unsubscribed == 1; }));
  CHECK(g_finalized == 0);
}

void in_a_process_of_its_own(void (*test)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    test();
    ::_exit(kerncap::test::exit_code());
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  g_cubin = read_file(argv[1]);
  for (const auto test : {cupti_goes_behind_a_call_that_waited, a_copy_that_waited_is_as_good, nothing_goes_while_something_runs,
                          nothing_goes_while_a_graph_is_recorded, the_subscriber_alone_goes_where_two_threads_call,
                          nothing_goes_once_another_thread_has_launched, nor_where_that_launch_was_only_counted,
                          the_subscriber_alone_goes_where_the_program_takes_records_itself, or_where_cupti_is_older}) {
    in_a_process_of_its_own(test);
  }
  return kerncap::test::exit_code();
}
