// While a dispatch is captured no launch of another thread runs beside it. Driver and CUPTI are stubs (stub_cuda.hpp).
#include <chrono>
#include <cstdlib>
#include <future>
#include <utility>

#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

const auto k_target = handle<CUfunction>(0x2000);
const auto k_unknown = handle<CUfunction>(0x3000);    // asked for anew at each launch
const auto k_unwanted = handle<CUfunction>(0x4000);   // passes with a look into the table
constexpr std::chrono::milliseconds k_a_while{200};
constexpr std::uint32_t k_wait_ms = 2000;
// As CUDA 13.5's headers name them.
constexpr CUpti_CallbackId k_launch_host_func_v2 = 831;
constexpr CUpti_CallbackId k_begin_capture_to_cig = 783;

// The events around the kernel: the state before it has been taken, it has run.
std::function<void()> g_before = [] {};
std::function<void()> g_after = [] {};
int g_events = 0;

CUresult CUDAAPI record(CUevent, CUstream) {
  (g_events++ % 2 == 0 ? g_before : g_after)();
  return CUDA_SUCCESS;
}

// `other`: a call of another thread's. What it submits belongs to the state before, and what it gives up may still be asked for.
template <typename Other>
void what_is_under_way_ends_before_the_state_is_taken(Collector& collector, Other&& other) {
  const std::size_t before = collector.heard().captures.size();
  std::promise<void> taken;
  g_before = [&taken] { taken.set_value(); };
  std::future<void> is_taken = taken.get_future();
  other.enter();
  std::thread thread([] { Launch(k_target).run(); });
  CHECK(is_taken.wait_for(k_a_while) == std::future_status::timeout);
  other.leave();
  is_taken.wait();
  thread.join();
  g_before = [] {};
  CHECK(collector.heard().captures.size() == before + 1 && collector.heard().failures.empty());
}

// Of all kinds that are no launches.
void what_others_do_ends_before_the_state_is_taken(Collector& collector) {
  cuStreamDestroy_v2_params stream{handle<CUstream>(0x9000)};
  cuModuleUnload_params module{handle<CUmodule>(0x9100)};
  cuLibraryUnload_params library{handle<CUlibrary>(0x9200)};
  cuMemSetAccess_params rights{};
  const std::pair<CUpti_CallbackId, const void*> calls[] = {
      {CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuStreamWriteValue32_v2, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuStreamAddCallback, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2, &stream},
      {CUPTI_DRIVER_TRACE_CBID_cuGreenCtxDestroy, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuModuleUnload, &module},
      {CUPTI_DRIVER_TRACE_CBID_cuLibraryUnload, &library},
      {CUPTI_DRIVER_TRACE_CBID_cuMemSetAccess, &rights},
      {CUPTI_DRIVER_TRACE_CBID_cuMemPoolSetAccess, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuCtxDisablePeerAccess, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuMulticastUnbind, nullptr},
      {k_launch_host_func_v2, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuSignalExternalSemaphoresAsync, nullptr},
      {k_begin_capture_to_cig, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2, nullptr},
      {CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz, nullptr},
  };
  for (const auto& [call, parameters] : calls) what_is_under_way_ends_before_the_state_is_taken(collector, Call(call, parameters));
}

// It may wait for the device, and what it gives back is in no list any more.
void memory_that_goes_is_not_waited_for(Collector& collector) {
  const std::size_t before = collector.heard().captures.size();
  cuMemFree_v2_params memory{0x10000000};
  Call other(CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, &memory);
  other.enter();
  std::thread([] { Launch(k_target).run(); }).join();
  other.leave();
  CHECK(collector.heard().captures.size() == before + 1 && collector.heard().failures.empty());
}

// No handle of those that are being given up is asked then.
void a_stream_that_never_goes_fails_the_capture_before_any_stream_is_asked(Collector& collector) {
  const std::size_t before = collector.heard().failures.size();
  const auto usual = driver_stub().cuStreamQuery;
  driver_stub().cuStreamQuery = [](CUstream) -> CUresult { std::abort(); };
  cuStreamDestroy_v2_params stream{handle<CUstream>(0x9000)};
  Call other(CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2, &stream);
  other.enter();
  std::thread([] { Launch(k_target).run(); }).join();
  other.leave();
  driver_stub().cuStreamQuery = usual;
  const std::vector<std::string> failures = collector.heard().failures;
  CHECK(failures.size() == before + 1 && failures.back().find("that ends a stream, a context") != std::string::npos);
}

void one_that_begins_later_waits_until_the_kernel_has_run(Collector& collector, CUfunction other_function) {
  const std::size_t before = collector.heard().captures.size();
  std::atomic<bool> has_entered{false};
  std::future<void> entered;
  g_before = [&] {
    entered = std::async(std::launch::async, [&] {
      Launch other(other_function, 1, nullptr, "other");
      other.enter();
      has_entered = true;
      other.leave();
    });
    CHECK(entered.wait_for(k_a_while) == std::future_status::timeout);
  };
  g_after = [&] { CHECK(!has_entered); };
  Launch(k_target).run();
  entered.wait();
  g_before = g_after = [] {};
  CHECK(collector.heard().captures.size() == before + 1 && collector.heard().failures.empty());
}

// Its stream may be full of work that waits for another GPU.
void one_that_is_stuck_does_not_fail_the_capture(Collector& collector, CUfunction other_function) {
  const std::size_t before = collector.heard().captures.size();
  use_second_device();
  Launch stuck(other_function, 1, nullptr, "other");
  stuck.enter();
  std::thread([] { Launch(k_target).run(); }).join();
  CHECK(collector.heard().captures.size() == before + 1 && collector.heard().failures.empty());
  stuck.leave();
  leave_second_device();
}

void one_that_is_stuck_for_another_reason_fails_it(Collector& collector, CUfunction other_function) {
  const std::size_t before = collector.heard().failures.size();
  Launch stuck(other_function, 1, nullptr, "other");
  stuck.enter();
  std::thread([] { Launch(k_target).run(); }).join();
  stuck.leave();
  const std::vector<std::string> failures = collector.heard().failures;
  CHECK(failures.size() == before + 1 && failures.back().find("another thread's launch did not end in time") != std::string::npos);
}

// Its kernel may have run between the two states, unless it is another GPU's, which may have waited for what is captured.
void one_that_was_stuck_and_goes_on_fails_it(Collector& collector, CUfunction other_function, bool is_of_second) {
  const std::size_t before = collector.heard().failures.size();
  use_second_device();
  std::promise<void> entered;
  std::promise<void> goes_on;
  std::thread other([&] {
    Launch stuck(other_function, 1, nullptr, "other");
    if (is_of_second) stuck.in(k_context_of_second);
    stuck.enter();
    entered.set_value();
    goes_on.get_future().wait();
    stuck.leave();
  });
  entered.get_future().wait();
  g_before = [&] {
    goes_on.set_value();
    other.join();
  };
  Launch(k_target).run();
  g_before = [] {};
  leave_second_device();
  const std::vector<std::string> failures = collector.heard().failures;
  CHECK(failures.size() == before + (is_of_second ? 0 : 1));
  CHECK(is_of_second || failures.back().find("which had begun before") != std::string::npos);
}

// While a graph is recorded nobody can wait for what no stream tells of.
void work_of_a_stream_that_was_given_up_is_refused_beside_a_recording(Collector& collector) {
  static const auto k_busy = handle<CUstream>(0x9000);
  static const auto k_recorded = handle<CUstream>(0x9100);
  const std::size_t before = collector.heard().failures.size();
  Driver& table = driver_stub();
  const Driver usual = table;
  show_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, k_context);
  for (const CUstream stream : {k_busy, k_recorded}) show_resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, k_context, stream);
  const auto k_records = [](CUstream stream, CUstreamCaptureStatus* status) {
    *status = stream == k_recorded ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  table.cuStreamIsCapturing = k_records;
  table.cuStreamQuery = [](CUstream stream) { return stream == k_busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; };
  cuStreamDestroy_v2_params going{k_busy};
  Call destroy(CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2, &going);
  destroy.enter();
  show_resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, k_context, k_busy);
  destroy.leave();
  Launch(k_target).run();
  Heard heard = collector.heard();
  CHECK(heard.failures.size() == before + 1 && heard.failures.back().find("given up while it worked") != std::string::npos);
  table.cuStreamIsCapturing = usual.cuStreamIsCapturing;   // the recording is over, and all is waited for
  Launch(k_target).run();
  table.cuStreamIsCapturing = k_records;
  Launch(k_target).run();
  CHECK(collector.heard().failures.size() == before + 1);
  table = usual;
  show_resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, k_context, k_recorded);
}

// The process may have no more memory: from then on nothing is shown to us, but the ends of calls that were counted.
void the_end_of_a_counted_call_is_seen_in_any_case() {
  Call copy(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2, nullptr);
  copy.enter();
  CHECK(g_tool->own.copying.load() == 1);
  g_tool->own.enabled.store(false);
  copy.leave();
  g_tool->own.enabled.store(true);
  CHECK(g_tool->own.copying.load() == 0);
}

// Each would wait for the other.
void launches_that_are_both_wanted_do_not_count_for_each_other(Collector& collector) {
  const std::size_t before = collector.heard().captures.size();
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 20; ++round) Launch(k_target).run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(collector.heard().captures.size() == before + 80 && collector.heard().failures.empty());
}

void other_threads_go_on_between_captures_one_behind_the_other() {
  g_before = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  std::atomic<bool> is_over{false};
  std::atomic<int> calls{0};
  std::thread other([&] {
    for (; !is_over; ++calls) {
      Call call(CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, nullptr);
      call.enter();
      call.leave();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int i = 0; i < 50; ++i) Launch(k_target).run();
  is_over = true;
  other.join();
  g_before = [] {};
  CHECK(calls > 15);
}

// While much is on its way, which the end of its context waits for. Behind this nothing is small any more.
void a_context_that_is_given_up_holds_no_capture_of_another(Collector& collector) {
  static constexpr std::chrono::milliseconds k_sending{1500};
  driver_stub().cuMemGetInfo_v2 = [](std::size_t* free_bytes, std::size_t* total) {
    *free_bytes = *total = std::size_t{100} << 30;
    return CUDA_SUCCESS;
  };
  driver_stub().cuMemAlloc_v2 = [](CUdeviceptr* made, std::size_t bytes) {
    *made = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    return CUDA_SUCCESS;
  };
  driver_stub().cuEventQuery = [](CUevent) {
    static thread_local bool t_has_waited = false;   // the thread that sends, once
    if (!std::exchange(t_has_waited, true)) std::this_thread::sleep_for(k_sending);
    return CUDA_SUCCESS;
  };
  CUdeviceptr address = 0x10000000;
  cuMemAlloc_v2_params large{&address, 100 << 20};
  Call allocate(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &large);
  allocate.enter();
  allocate.leave();
  Launch(k_target).run();
  CHECK(g_tool->snapshots.sender().is_sending());
  std::thread ending([] {
    Call call(CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2, nullptr);
    call.enter();
    CHECK(!g_tool->snapshots.sender().is_sending());
    call.leave();
  });
  std::this_thread::sleep_for(k_a_while);
  const std::size_t failures = collector.heard().failures.size();
  Launch second(k_target);
  const auto begin = std::chrono::steady_clock::now();
  second.enter();
  CHECK(std::chrono::steady_clock::now() - begin < k_sending / 2);
  second.leave();
  ending.join();
  CHECK(collector.heard().failures.size() == failures);
}

// In a chroot or behind a filter, where the driver does not find its compiler. There is room for copies now. Of memory that others may
// write, that is said.
void without_our_kernel_all_counts_as_changed(Collector& collector) {
  const Heard before = collector.heard();
  g_warnings.clear();
  cuIpcGetMemHandle_params exported{nullptr, 0x10000000};
  Call to_export(CUPTI_DRIVER_TRACE_CBID_cuIpcGetMemHandle, &exported);
  to_export.enter();
  to_export.leave();
  driver_stub().cuModuleLoadDataEx = [](CUmodule*, const void*, unsigned, CUjit_option*, void**) {
    return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  };
  Launch(k_target).run();
  const Heard after = collector.heard();
  CHECK(after.captures.size() == before.captures.size() + 1 && after.failures.size() == before.failures.size());
  CHECK(!g_warnings.empty() && g_warnings.back().find("shares with other processes") != std::string::npos);
}

// A call that changes nothing, and waits for the window as long as calls do.
void wait_in_vain() {
  Call question(CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, nullptr);
  question.enter();
  question.leave();
}

// Also where it has waited for as long as calls do: what is copied then may be what it takes away.
void rights_are_changed_behind_the_copies_of_a_capture_that_has_failed(Collector& collector) {
  const std::size_t failures = collector.heard().failures.size();
  std::promise<void> passed;
  std::atomic<bool> goes_on{false}, was_late{false};
  std::thread other;
  g_before = [&] {
    other = std::thread([&] {
      wait_in_vain();
      passed.set_value();
      const cuMemSetAccess_params none{0, 0, nullptr, 0};
      Call rights(CUPTI_DRIVER_TRACE_CBID_cuMemSetAccess, &none);
      rights.enter();
      was_late = goes_on.load();
      rights.leave();
    });
    passed.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    goes_on = true;
  };
  Launch(k_target).run();
  g_before = [] {};
  other.join();
  CHECK(was_late && collector.heard().failures.size() == failures + 1);
}

// A state that is sent at the speed of a slow disk takes so long, and no thread is held for ever, nor a second time.
void what_another_thread_went_on_in_the_middle_of_is_no_capture(Collector& collector) {
  const std::size_t before = collector.heard().captures.size();
  const std::size_t failures = collector.heard().failures.size();
  std::promise<void> passed;
  std::promise<void> may_end;
  std::thread other;
  g_before = [&] {
    other = std::thread([&] {
      wait_in_vain();
      const auto begin = std::chrono::steady_clock::now();
      Call copy(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2, nullptr);
      copy.enter();
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(k_wait_ms));
      passed.set_value();
      may_end.get_future().wait();
      copy.leave();
    });
    passed.get_future().wait();
  };
  Launch(k_target).run();
  g_before = [] {};
  Heard heard = collector.heard();
  CHECK(heard.captures.size() == before + 1 && heard.failures.size() == failures + 1);
  CHECK(heard.failures.back().find("went on before its state had been taken") != std::string::npos);
  Launch(k_target).run();   // the copy is still going on
  heard = collector.heard();
  CHECK(heard.failures.size() == failures + 2 && heard.failures.back().find("a copy from or to the host") != std::string::npos);
  may_end.set_value();
  other.join();
  const std::size_t between = heard.captures.size();
  Launch(k_target).run();
  heard = collector.heard();
  CHECK(heard.captures.size() == between + 1 && heard.failures.size() == failures + 2);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Collector& collector = start_library({.count = 1000}, k_wait_ms);
  driver_stub().cuEventRecord = record;
  std::string cubin = read_file(argv[1]);
  load_cubin(cubin);
  static Kernel unwanted;
  g_tool->functions.add(k_unwanted, &unwanted);
  for (const CUfunction other : {k_unknown, k_unwanted}) {
    what_is_under_way_ends_before_the_state_is_taken(collector, Launch(other, 1, nullptr, "other"));
    one_that_begins_later_waits_until_the_kernel_has_run(collector, other);
    one_that_is_stuck_does_not_fail_the_capture(collector, other);
  }
  what_others_do_ends_before_the_state_is_taken(collector);
  memory_that_goes_is_not_waited_for(collector);
  the_end_of_a_counted_call_is_seen_in_any_case();
  launches_that_are_both_wanted_do_not_count_for_each_other(collector);
  other_threads_go_on_between_captures_one_behind_the_other();
  for (const CUfunction other : {k_unknown, k_unwanted}) {
    one_that_is_stuck_for_another_reason_fails_it(collector, other);
    for (const bool is_of_second : {false, true}) one_that_was_stuck_and_goes_on_fails_it(collector, other, is_of_second);
  }
  work_of_a_stream_that_was_given_up_is_refused_beside_a_recording(collector);
  a_stream_that_never_goes_fails_the_capture_before_any_stream_is_asked(collector);
  what_another_thread_went_on_in_the_middle_of_is_no_capture(collector);
  rights_are_changed_behind_the_copies_of_a_capture_that_has_failed(collector);
  a_context_that_is_given_up_holds_no_capture_of_another(collector);
  without_our_kernel_all_counts_as_changed(collector);
  return kerncap::test::exit_code();
}
