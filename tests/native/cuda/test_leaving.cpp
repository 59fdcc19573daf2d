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
const auto k_stream = handle<CUstream>(0x3000);
std::string g_cubin;
std::atomic<int> g_finalized{0};
std::atomic<int> g_unsubscribed{0};
std::atomic<int> g_enabled{0};         // kinds of records
std::atomic<int> g_switched_off{0};
std::atomic<CUresult> g_all_work{CUDA_SUCCESS};

Cupti& cupti_stub() { return const_cast<Cupti&>(cupti()); }

void show_resource(CUpti_CallbackId what, CUstream stream = nullptr) {
  CUpti_ResourceData data{};
  data.context = k_context;
  data.resourceHandle.stream = stream;
  g_callback(g_subscribed_with, CUPTI_CB_DOMAIN_RESOURCE, what, &data);
}

void start(const kerncap::capture::Rule& rule = {}) {
  start_library(rule);
  cupti_stub().cuptiGetVersion = [](std::uint32_t* version) {
    *version = 130000;
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
  show_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
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

void call(CUpti_CallbackId id = k_wait, CUresult status = CUDA_SUCCESS) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));   // looks are 1 ms apart
  Call call(id, nullptr);
  call.enter();
  call.leave(status);
}

template <typename Work>
void on_another_thread(Work work) { std::thread(work).join(); }

bool subscriber_alone_has_gone() { return soon([] { return g_unsubscribed == 1; }, std::chrono::milliseconds(500)) && g_finalized == 0; }

void cupti_goes_behind_a_call_that_waited() {
  start();
  capture();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  Call wait(k_wait, nullptr);
  wait.enter();
  CHECK(g_finalized == 0 && g_unsubscribed == 0);
  wait.leave();
  CHECK(g_finalized == 1 && !g_tool->own.enabled && !g_tool->own.leaving);
  call();
  CHECK(!soon([] { return g_unsubscribed != 0 || g_finalized != 1; }, std::chrono::milliseconds(50)));
}

void a_last_dispatch_that_is_not_captured_is_one_too() {
  start({.count = 2});
  Launch(k_function).run();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));   // our thread waits for more
  driver_stub().cuCtxGetDevice = [](CUdevice*) { return CUDA_ERROR_UNKNOWN; };
  capture();
  call();
  CHECK(g_finalized == 1);
}

// Which are counted as long as we are there.
void launches_that_go_on_do_not_keep_us() {
  start();
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!is_over) Launch(k_function).run();
    });
  }
  CHECK(soon([] { return g_unsubscribed == 1; }));
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

// Behind the window of a capture all calls are switched off but those that matter.
void calls_that_wait_are_shown() {
  start();
  cupti_stub().cuptiEnableCallback = [](std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId id) {
    CHECK(on == 0 && id != k_wait && id != CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2);
    ++g_switched_off;
    return CUPTI_SUCCESS;
  };
  capture();
  CHECK(g_switched_off > 0);
}

void a_copy_that_waited_is_as_good() {
  start();
  capture();
  call(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2);
  CHECK(g_finalized == 1);
}

void but_not_one_that_did_not_or_a_wait_that_failed() {
  start();
  capture();
  call(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2);
  call(k_wait, CUDA_ERROR_LAUNCH_FAILED);
  CHECK(g_finalized == 0 && g_unsubscribed == 0);
}

void nothing_goes_while_something_runs() {
  start();
  capture();
  g_all_work = CUDA_ERROR_NOT_READY;
  call();
  CHECK(g_finalized == 0 && g_unsubscribed == 0);
  g_all_work = CUDA_SUCCESS;
  call();
  CHECK(g_finalized == 1);
}

// The program waited for one stream, and another one runs, for ever perhaps.
void nothing_is_made_or_submitted_while_a_stream_runs() {
  start();
  capture();
  show_resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, k_stream);
  driver_stub().cuStreamQuery = [](CUstream stream) { return stream == k_stream ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; };
  driver_stub().cuEventCreate = [](CUevent*, unsigned) -> CUresult { std::abort(); };
  call();
  CHECK(g_finalized == 0);
}

void nothing_goes_while_a_graph_is_recorded() {
  start();
  capture();
  show_resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, k_stream);
  driver_stub().cuStreamIsCapturing = [](CUstream stream, CUstreamCaptureStatus* status) {
    *status = stream == CU_STREAM_LEGACY ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  };
  driver_stub().cuCtxRecordEvent = [](CUcontext, CUevent) -> CUresult { std::abort(); };   // it would spoil the recording
  call();
  CHECK(g_finalized == 0);
}

void nothing_goes_without_a_context() {
  start();
  capture();
  show_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
  call();
  CHECK(g_finalized == 0);
}

void the_subscriber_alone_goes_where_two_threads_call() {
  start();
  on_another_thread([] { call(); });
  Launch(k_function).run();
  CHECK(subscriber_alone_has_gone());
}

void or_make_streams() {
  start();
  on_another_thread([] { show_resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, k_stream); });
  Launch(k_function).run();
  CHECK(subscriber_alone_has_gone());
}

void or_launch_what_is_only_counted() {
  start({.first = 2});
  Launch(k_function).run();
  on_another_thread([] { Launch(k_function).run(); });   // passes with a look into the table
  Launch(k_function).run();
  CHECK(subscriber_alone_has_gone());
}

void or_where_another_thread_comes_meanwhile() {
  start();
  capture();
  on_another_thread([] { Launch(k_function).run(); });
  call();
  CHECK(subscriber_alone_has_gone());
}

void or_during_the_look() {
  start();
  capture();
  cupti_stub().cuptiEnableDomain = [](std::uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
    on_another_thread([] { Launch(k_function).run(); });   // on its way already
    return CUPTI_SUCCESS;
  };
  call();
  CHECK(subscriber_alone_has_gone());
}

void or_where_something_begins_to_run_meanwhile() {
  start();
  capture();
  cupti_stub().cuptiEnableDomain = [](std::uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
    g_all_work = CUDA_ERROR_NOT_READY;
    return CUPTI_SUCCESS;
  };
  call();
  CHECK(subscriber_alone_has_gone());
}

void or_where_the_program_takes_records_itself() {
  start();
  cupti_stub().cuptiActivityEnable = [](CUpti_ActivityKind) { return CUPTI_ERROR_NOT_COMPATIBLE; };
  capture();
  call();
  CHECK(subscriber_alone_has_gone());
}

void or_where_cupti_does_not_go() {
  start();
  cupti_stub().cuptiActivityEnable = [](CUpti_ActivityKind) {
    ++g_enabled;
    return CUPTI_SUCCESS;
  };
  cupti_stub().cuptiActivityDisable = [](CUpti_ActivityKind) {
    --g_enabled;
    return CUPTI_SUCCESS;
  };
  cupti_stub().cuptiFinalize = [] {
    CHECK(g_enabled == 1);
    return CUPTI_ERROR_UNKNOWN;
  };
  capture();
  call();
  CHECK(subscriber_alone_has_gone());
  CHECK(g_enabled == 0);
}

// Our own thread has waited long enough just then.
void or_where_the_look_takes_too_long() {
  start();
  capture();
  driver_stub().cuEventQuery = [](CUevent) {
    CHECK(soon([] { return g_unsubscribed == 1; }));
    return CUDA_SUCCESS;
  };
  call();
  CHECK(subscriber_alone_has_gone());
}

void or_where_nothing_comes_in_time() {
  start();
  capture();
  CHECK(soon([] { return g_unsubscribed == 1; }));
  call();
  CHECK(g_finalized == 0);
}

void or_where_cupti_is_older() {
  start();
  cupti_stub().cuptiGetVersion = [](std::uint32_t* version) {
    *version = 129999;
    return CUPTI_SUCCESS;
  };
  Launch(k_function).run();
  CHECK(subscriber_alone_has_gone());
}

void or_where_it_is_wanted() {
  ::setenv("KERNCAP_KEEP_CUPTI", "1", 1);
  start();
  Launch(k_function).run();
  CHECK(subscriber_alone_has_gone());
}

void neither_goes_when_the_program_ends() {
  start();
  capture();
  g_tool->leaving.program_ends();
  call();
  CHECK(!soon([] { return g_unsubscribed + g_finalized != 0; }, std::chrono::milliseconds(50)));
}

// A handler of a signal calls exit() while the thread is in a look.
void a_thread_that_looks_may_end_the_program() {
  start();
  capture();
  cupti_stub().cuptiFinalize = [] {
    g_tool->leaving.program_ends();
    ++g_finalized;
    return CUPTI_SUCCESS;
  };
  call();
  CHECK(g_finalized == 1);
}

bool passes_in_a_process_of_its_own(void (*test)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    test();
    ::_exit(kerncap::test::exit_code());
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  g_cubin = read_file(argv[1]);
  bool all_pass = true;
  for (const auto test :
       {cupti_goes_behind_a_call_that_waited, a_last_dispatch_that_is_not_captured_is_one_too, calls_that_wait_are_shown, a_copy_that_waited_is_as_good, but_not_one_that_did_not_or_a_wait_that_failed,
        nothing_goes_while_something_runs, nothing_is_made_or_submitted_while_a_stream_runs, nothing_goes_while_a_graph_is_recorded,
        nothing_goes_without_a_context, the_subscriber_alone_goes_where_two_threads_call, or_make_streams,
        or_launch_what_is_only_counted, or_where_another_thread_comes_meanwhile, or_during_the_look,
        or_where_something_begins_to_run_meanwhile, or_where_the_program_takes_records_itself, or_where_cupti_does_not_go,
        or_where_the_look_takes_too_long, or_where_nothing_comes_in_time, or_where_cupti_is_older,
        or_where_it_is_wanted, neither_goes_when_the_program_ends, a_thread_that_looks_may_end_the_program}) {
    all_pass = passes_in_a_process_of_its_own(test) && all_pass;   // else a child would begin with our failures
  }
  // By chance: whether a launch stands in the way just when it is asked.
  for (int i = 0; i < 10; ++i) all_pass = passes_in_a_process_of_its_own(launches_that_go_on_do_not_keep_us) && all_pass;
  CHECK(all_pass);
  return kerncap::test::exit_code();
}
