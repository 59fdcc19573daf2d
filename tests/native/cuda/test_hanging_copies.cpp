// Copies of ours that do not end lose the capture, in bounded time, and memory that they may still use is not given back. Driver and
// CUPTI are stubs (stub_cuda.hpp), and all memory is the host's.
#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

using Clock = std::chrono::steady_clock;

const auto k_target = handle<CUfunction>(0x2000);
constexpr std::chrono::milliseconds k_wait{600};
constexpr std::uint64_t k_bytes = 4 << 20;

// The streams that the library makes, of which each is one of a copier's, and the events that were recorded on them.
std::vector<CUstream> g_streams;
std::set<CUevent> g_events;
std::set<CUdeviceptr> g_made;          // memory of ours, not given back yet
CUresult g_on_streams = CUDA_SUCCESS;
CUstream g_only_on = nullptr;          // or on all of them
CUresult g_of_events = CUDA_SUCCESS;
int g_queued = 0;

bool is_ours(CUstream stream) { return std::find(g_streams.begin(), g_streams.end(), stream) != g_streams.end(); }

void fill() {
  use_host_memory();
  Driver& table = driver_stub();
  table.cuMemGetInfo_v2 = [](std::size_t* free_bytes, std::size_t* total) {
    *free_bytes = *total = std::size_t{100} << 30;
    return CUDA_SUCCESS;
  };
  static const auto usual_alloc = table.cuMemAlloc_v2;
  table.cuMemAlloc_v2 = [](CUdeviceptr* made, std::size_t bytes) {
    const CUresult status = usual_alloc(made, bytes);
    if (bytes >= k_bytes) g_made.insert(*made);
    return status;
  };
  table.cuMemFree_v2 = [](CUdeviceptr memory) {
    g_made.erase(memory);
    return CUDA_SUCCESS;
  };
  table.cuStreamCreate = [](CUstream* made, unsigned) {
    *made = handle<CUstream>(0x5000 + g_streams.size());
    g_streams.push_back(*made);
    return CUDA_SUCCESS;
  };
  table.cuEventCreate = [](CUevent* made, unsigned) {
    static std::uintptr_t s_events = 0x6000;
    *made = handle<CUevent>(++s_events);
    return CUDA_SUCCESS;
  };
  table.cuEventRecord = [](CUevent event, CUstream stream) {
    if (is_ours(stream)) g_events.insert(event);
    return CUDA_SUCCESS;
  };
  table.cuStreamQuery = [](CUstream stream) {
    return is_ours(stream) && (g_only_on == nullptr || stream == g_only_on) ? g_on_streams : CUDA_SUCCESS;
  };
  table.cuEventQuery = [](CUevent event) {
    return g_events.contains(event) ? g_of_events : CUDA_SUCCESS;
  };
  static const auto usual_copy = table.cuMemcpyAsync;
  table.cuMemcpyAsync = [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    ++g_queued;
    return usual_copy(to, from, bytes, stream);
  };
}

struct Attempt {
  std::vector<std::string> failures;
  Clock::duration took;                // the launch
  Clock::duration took_in_all;         // until the thread that sends has nothing left
  int queued;
};

Attempt launch(Collector& collector) {
  const std::size_t before = collector.heard().failures.size();
  g_queued = 0;
  const auto begin = Clock::now();
  Launch(k_target).run();
  const Clock::duration took = Clock::now() - begin;
  g_tool->snapshots.sender().finish();
  const Clock::duration took_in_all = Clock::now() - begin;
  std::vector<std::string> failures = collector.heard().failures;
  failures.erase(failures.begin(), failures.begin() + static_cast<std::ptrdiff_t>(before));
  return {failures, took, took_in_all, g_queued};
}

bool failed(const Attempt& attempt, const std::string& what) { return attempt.failures == std::vector{what + " did not end in time"}; }

void a_launch_is_captured(Collector& collector) {
  const std::size_t left = g_made.size();
  const std::size_t before = collector.heard().captures.size();
  CHECK(launch(collector).failures.empty());
  CHECK(collector.heard().captures.size() == before + 1);
  CHECK(g_made.size() == left);
}

void a_copy_on_the_device_that_hangs_fails_the_capture(Collector& collector) {
  const std::size_t left = g_made.size();
  g_on_streams = CUDA_ERROR_NOT_READY;
  g_warnings.clear();
  const Attempt first = launch(collector);
  CHECK(failed(first, "copying memory"));
  CHECK(first.took > k_wait / 2 && first.took < 3 * k_wait);
  CHECK(g_made.size() == left + 1);          // the copy may still write to it
  CHECK(times_warned("is not given back to the program") == 1);
  const Attempt second = launch(collector);
  CHECK(failed(second, "a copy of an earlier capture"));
  CHECK(second.queued == 0 && second.took < k_wait);
  g_on_streams = CUDA_SUCCESS;
  a_launch_is_captured(collector);           // the device has gone on
}

void a_copy_to_the_host_that_hangs_fails_the_capture(Collector& collector) {
  const std::size_t left = g_made.size();
  g_on_streams = g_of_events = CUDA_ERROR_NOT_READY;
  static int s_asked = 0;                    // the copy on the device ends
  s_asked = 0;
  const auto usual = driver_stub().cuStreamQuery;
  driver_stub().cuStreamQuery = [](CUstream) { return s_asked++ < 2 ? CUDA_SUCCESS : g_on_streams; };
  const Attempt attempt = launch(collector);
  driver_stub().cuStreamQuery = usual;
  CHECK(failed(attempt, "copying to the host"));
  CHECK(g_made.size() > left);
  g_on_streams = g_of_events = CUDA_SUCCESS;
  a_launch_is_captured(collector);
}

void allocate(std::uint64_t bytes) {
  auto address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(4096, bytes));
  std::memset(pointer(address), 1, bytes);
  cuMemAlloc_v2_params of_program{&address, bytes};
  Call call(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, &of_program);
  call.enter();
  call.leave();
}

// Behind this nothing is small any more: our own thread sends it. A program that ends waits for that thread.
void a_copy_of_our_thread_that_hangs_does_not_hold_the_program(Collector& collector) {
  allocate(65 << 20);
  a_launch_is_captured(collector);
  CHECK(g_streams.size() == 2);
  g_only_on = g_streams.back();
  g_on_streams = g_of_events = CUDA_ERROR_NOT_READY;
  const std::size_t left = g_made.size();
  const Attempt attempt = launch(collector);
  CHECK(failed(attempt, "copying to the host"));
  CHECK(attempt.took < k_wait && attempt.took_in_all > k_wait / 2 && attempt.took_in_all < 3 * k_wait);
  CHECK(g_made.size() == left + 1);
  g_on_streams = g_of_events = CUDA_SUCCESS;
  g_only_on = nullptr;
  a_launch_is_captured(collector);
}

void a_context_that_is_broken_is_not_waited_for(Collector& collector) {
  g_on_streams = g_of_events = CUDA_ERROR_ILLEGAL_ADDRESS;
  const std::size_t left = g_made.size();
  const Attempt attempt = launch(collector);
  CHECK(attempt.failures.size() == 1 && attempt.failures[0].find("copying memory: an error") == 0);
  CHECK(attempt.took < k_wait);
  CHECK(g_made.size() == left);
  g_on_streams = g_of_events = CUDA_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Collector& collector = start_library({.count = 1000}, k_wait.count());
  fill();
  std::string cubin = read_file(argv[1]);
  load_cubin(cubin);
  allocate(k_bytes);
  a_launch_is_captured(collector);
  a_copy_on_the_device_that_hangs_fails_the_capture(collector);
  a_copy_to_the_host_that_hangs_fails_the_capture(collector);
  a_context_that_is_broken_is_not_waited_for(collector);
  a_launch_is_captured(collector);
  a_copy_of_our_thread_that_hangs_does_not_hold_the_program(collector);
  return kerncap::test::exit_code();
}
