// Waiting for the program's streams while it records a graph on one of them: what the driver would answer with a spoiled
// recording is never asked. The driver is a table of functions of ours.
#include <pthread.h>

#include <algorithm>
#include <future>
#include <thread>
#include <vector>

#include "../check.hpp"
#include "cuda/api.hpp"
#include "cuda/streams.hpp"
#include "cuda/tool.hpp"

using namespace kerncap::cuda;

namespace {

const auto k_context = reinterpret_cast<CUcontext>(0x1000);
const auto k_plain = reinterpret_cast<CUstream>(0x2000);
const auto k_recorded = reinterpret_cast<CUstream>(0x3000);

bool g_records = false;                // on k_recorded
bool g_blocks = false;                 // which is a blocking stream
std::vector<CUstream> g_queried;
CUstream g_running = nullptr;
std::vector<CUcontext> g_entered;
int g_waited_for_all = 0;
int g_events = 0;                      // that were made, and not destroyed
std::vector<CUcontext> g_all_of;       // contexts of which all work was recorded
CUresult g_all = CUDA_SUCCESS;         // what has come of it
thread_local CUstreamCaptureMode g_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult CUDAAPI is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
  if (stream == CU_STREAM_LEGACY && g_records && g_blocks) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = stream == k_recorded && g_records ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI query(CUstream stream) {
  g_queried.push_back(stream);
  return stream == g_running ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult CUDAAPI wait_for_all() {
  ++g_waited_for_all;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI make_event(CUevent* event, unsigned) {
  ++g_events;
  *event = reinterpret_cast<CUevent>(0x4000);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI destroy_event(CUevent) {
  --g_events;
  return CUDA_SUCCESS;
}
CUresult g_recorded = CUDA_SUCCESS;
CUresult CUDAAPI record_all(CUcontext context, CUevent) {
  g_all_of.push_back(context);
  return g_recorded;
}
CUcontext g_busy = nullptr;            // where something runs that is on no stream that we know
CUresult CUDAAPI query_event(CUevent) { return !g_entered.empty() && g_entered.back() == g_busy ? CUDA_ERROR_NOT_READY : g_all; }
CUcontext g_green = nullptr;           // cannot be entered
CUresult CUDAAPI push(CUcontext context) {
  if (context == g_green) return CUDA_ERROR_INVALID_CONTEXT;
  g_entered.push_back(context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI pop(CUcontext*) {
  g_entered.pop_back();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI exchange(CUstreamCaptureMode* mode) {
  std::swap(*mode, g_mode);
  return CUDA_SUCCESS;
}
CUptiResult CUPTIAPI device_of(CUcontext, std::uint32_t* device) {
  *device = 0;
  return CUPTI_SUCCESS;
}

void fill_tables() {
  auto& table = const_cast<Driver&>(driver());
  table.cuStreamIsCapturing = is_capturing;
  table.cuStreamQuery = query;
  table.cuCtxSynchronize = wait_for_all;
  table.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  table.cuCtxRecordEvent = record_all;
  table.cuEventCreate = make_event;
  table.cuEventDestroy_v2 = destroy_event;
  table.cuEventQuery = query_event;
  table.cuCtxPushCurrent_v2 = push;
  table.cuCtxPopCurrent_v2 = pop;
  table.cuThreadExchangeStreamCaptureMode = exchange;
  const_cast<Cupti&>(cupti()).cuptiGetDeviceId = device_of;
}

constexpr std::chrono::milliseconds k_short{20};
kerncap::core::Result<void> drain(const Streams& streams, std::chrono::milliseconds limit = std::chrono::seconds(30)) {
  g_queried.clear();
  g_waited_for_all = 0;
  g_all_of.clear();
  const auto done = streams.drain(0, std::chrono::steady_clock::now() + limit);
  CHECK(g_events == 0);
  return done;
}

bool was_queried(CUstream stream) { return std::find(g_queried.begin(), g_queried.end(), stream) != g_queried.end(); }

void test_drain() {
  Streams streams;
  streams.context_created(k_context);
  streams.created(k_context, k_plain);
  streams.created(k_context, k_recorded);

  CHECK(static_cast<bool>(drain(streams)));
  for (CUstream stream : {CU_STREAM_LEGACY, k_plain, k_recorded}) CHECK(was_queried(stream));
  CHECK(!was_queried(CU_STREAM_PER_THREAD));
  CHECK(g_all_of == std::vector{k_context} && g_waited_for_all == 0);

  g_records = true;
  CHECK(static_cast<bool>(drain(streams)));
  for (CUstream stream : {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, k_plain}) CHECK(was_queried(stream));
  CHECK(!was_queried(k_recorded));
  CHECK(g_all_of.empty() && g_waited_for_all == 0);

  g_blocks = true;
  const kerncap::core::Result<void> refused = drain(streams);
  CHECK(!refused && refused.error().code == kerncap::core::ErrorCode::unsupported);
  CHECK(g_queried.empty());
  CHECK(g_all_of.empty() && g_waited_for_all == 0);
  g_records = g_blocks = false;
}

void test_what_is_on_no_stream_that_we_know() {
  Streams streams;
  streams.context_created(k_context);
  g_all = CUDA_ERROR_NOT_READY;
  const kerncap::core::Result<void> late = drain(streams, k_short);
  CHECK(!late && late.error().code == kerncap::core::ErrorCode::timeout);
  g_all = CUDA_SUCCESS;
  auto& table = const_cast<Driver&>(driver());
  table.cuCtxRecordEvent = nullptr;   // an older driver
  CHECK(static_cast<bool>(drain(streams)));
  CHECK(g_waited_for_all == 1);
  static std::promise<void> s_may_end;
  static std::promise<void> s_has_ended;
  table.cuCtxSynchronize = [] {
    s_may_end.get_future().wait();
    s_has_ended.set_value();
    return CUDA_SUCCESS;
  };
  const kerncap::core::Result<void> never = drain(streams, k_short);
  CHECK(!never && never.error().code == kerncap::core::ErrorCode::timeout);
  s_may_end.set_value();
  s_has_ended.get_future().wait();
  table.cuCtxSynchronize = wait_for_all;
  table.cuCtxRecordEvent = record_all;
  g_recorded = CUDA_ERROR_NOT_SUPPORTED;   // of this context
  CHECK(static_cast<bool>(drain(streams)));
  CHECK(g_waited_for_all == 1);
  g_recorded = CUDA_SUCCESS;
}

void test_streams_that_are_given_up() {
  Streams streams;
  streams.context_created(k_context);
  const auto give_up = [&streams](bool is_running) {
    streams.created(k_context, k_plain);
    if (is_running) g_running = k_plain;
    streams.given_up(k_plain);
    streams.destroyed(k_plain);
    g_running = nullptr;
  };
  streams.created(k_context, k_recorded);
  g_queried.clear();
  streams.given_up(CU_STREAM_LEGACY);   // no stream that can be
  CHECK(g_queried.empty());
  give_up(false);
  g_records = true;
  CHECK(static_cast<bool>(drain(streams)));
  give_up(true);
  const kerncap::core::Result<void> refused = drain(streams);
  CHECK(!refused && refused.error().code == kerncap::core::ErrorCode::unsupported);
  CHECK(g_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  g_records = false;
  CHECK(static_cast<bool>(drain(streams)));
  g_records = true;
  CHECK(static_cast<bool>(drain(streams)));
  g_queried.clear();
  streams.given_up(k_recorded);         // a question would spoil the recording
  CHECK(g_queried.empty());
  g_records = false;
}

bool are_at_rest(const Streams& streams) {
  const bool rest = streams.are_at_rest();
  CHECK(g_events == 0 && g_entered.empty() && g_waited_for_all == 0);
  return rest;
}

void test_rest() {
  g_waited_for_all = 0;
  Streams streams;
  CHECK(!are_at_rest(streams));
  const auto other = reinterpret_cast<CUcontext>(0x5000);
  for (CUcontext context : {k_context, other}) streams.context_created(context);
  streams.created(k_context, k_plain);
  streams.created(other, k_recorded);
  CHECK(are_at_rest(streams));
  for (CUcontext context : {k_context, other}) {
    g_busy = context;
    CHECK(!are_at_rest(streams));
    g_busy = nullptr;
    g_green = context;
    CHECK(!are_at_rest(streams));
    g_green = nullptr;
  }
  for (CUstream stream : {CU_STREAM_LEGACY, k_plain, k_recorded}) {
    g_running = stream;
    g_all_of.clear();
    CHECK(!are_at_rest(streams));
    CHECK(std::find(g_all_of.begin(), g_all_of.end(), stream == k_recorded ? other : k_context) == g_all_of.end());
    g_running = nullptr;
  }
  g_records = true;
  CHECK(!are_at_rest(streams));
  streams.destroyed(k_recorded);
  g_blocks = true;   // on a stream that is in no list
  CHECK(!are_at_rest(streams));
  g_records = g_blocks = false;
  g_recorded = CUDA_ERROR_NOT_SUPPORTED;
  CHECK(!are_at_rest(streams));
  g_recorded = CUDA_SUCCESS;
  auto& table = const_cast<Driver&>(driver());
  table.cuCtxRecordEvent = nullptr;
  CHECK(!are_at_rest(streams));
  table.cuCtxRecordEvent = record_all;
  CHECK(are_at_rest(streams));
  const_cast<Cupti&>(cupti()).cuptiGetDeviceId = [](CUcontext, std::uint32_t*) { return CUPTI_ERROR_UNKNOWN; };
  streams.context_created(reinterpret_cast<CUcontext>(0x6000));
  CHECK(!are_at_rest(streams));
  const_cast<Cupti&>(cupti()).cuptiGetDeviceId = device_of;
}

void test_relaxed_mode() {
  {
    const RelaxedMode relaxed;
    CHECK(g_mode == CU_STREAM_CAPTURE_MODE_RELAXED);
    const RelaxedMode again;
    CHECK(g_mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  CHECK(g_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

// A thread that is cancelled while it is inside of ours goes on to where the program can be cancelled.
void test_cancellation() {
  bool went_on = false;
  std::thread thread([&went_on] {
    pthread_cancel(pthread_self());
    {
      const Inside inside;
      const Inside deeper;
      pthread_testcancel();
    }
    went_on = true;
    int state = PTHREAD_CANCEL_DISABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    CHECK(state == PTHREAD_CANCEL_ENABLE);
  });
  thread.join();
  CHECK(went_on);
}

}  // namespace

int main() {
  fill_tables();
  test_drain();
  test_what_is_on_no_stream_that_we_know();
  test_streams_that_are_given_up();
  test_rest();
  test_relaxed_mode();
  test_cancellation();
  return kerncap::test::exit_code();
}
