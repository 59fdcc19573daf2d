// Eight threads submit work while one kernel is captured again and again: each loses its processor for a while between the entry
// of its call and what the call does. No state may hold half of a call. Driver and CUPTI are stubs (stub_cuda.hpp).
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

constexpr std::size_t k_captures = 100;
constexpr std::chrono::microseconds k_longest_pause{300};   // ten times as long as the library sleeps between two looks
const auto k_target = handle<CUfunction>(0x2000);
const auto k_unwanted = handle<CUfunction>(0x4000);   // passes with a look into the table
constexpr CUpti_CallbackId k_launch_host_func_v2 = 831;   // as CUDA 13.5's headers name it

// What a thread's calls have written. Not atomic: ThreadSanitizer sees who reads it beside a call.
struct alignas(64) Written {
  unsigned first = 0;
  unsigned second = 0;
};
std::array<Written, 8> g_written;
std::array<unsigned, 8> g_before{};
unsigned g_events = 0;

// The events around the kernel: the state before it has been taken, it has run.
CUresult CUDAAPI record(CUevent, CUstream) {
  const bool is_before = g_events++ % 2 == 0;
  for (std::size_t i = 0; i < g_written.size(); ++i) {
    CHECK(g_written[i].first == g_written[i].second);
    if (is_before) g_before[i] = g_written[i].first;
    CHECK(g_written[i].first == g_before[i]);
  }
  return CUDA_SUCCESS;
}

template <typename Other>
void write_in(Other&& other, Written& written, std::chrono::microseconds pause) {
  other.enter();
  std::this_thread::sleep_for(pause);
  ++written.first;
  std::this_thread::sleep_for(pause);
  ++written.second;
  other.leave();
}

void write_until(const std::atomic<bool>& stop, std::size_t which) {
  constexpr CUpti_CallbackId k_calls[] = {
      CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2,     CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async,
      CUPTI_DRIVER_TRACE_CBID_cuMemPoolSetAccess,  CUPTI_DRIVER_TRACE_CBID_cuMulticastUnbind,
      CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc,    k_launch_host_func_v2,
      CUPTI_DRIVER_TRACE_CBID_cuStreamWriteValue32_v2,
  };
  for (unsigned round = 0; !stop.load(); ++round) {
    const auto pause = k_longest_pause * (round * 7 % 10) / 10;
    if (which < std::size(k_calls)) {
      write_in(Call(k_calls[which], nullptr), g_written[which], pause);
    } else {
      write_in(Launch(k_unwanted, 1, nullptr, "other"), g_written[which], pause);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Collector& collector = start_library({.count = 100000});
  driver_stub().cuEventRecord = record;
  std::string cubin = read_file(argv[1]);
  load_cubin(cubin);
  static Kernel unwanted;
  g_tool->functions.add(k_unwanted, &unwanted);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::size_t which = 0; which < g_written.size(); ++which) threads.emplace_back([&stop, which] { write_until(stop, which); });
  for (std::size_t i = 0; i < k_captures; ++i) Launch(k_target).run();
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  const Heard heard = collector.heard();
  CHECK(heard.captures.size() == k_captures && heard.failures.empty());
  for (const Written& written : g_written) CHECK(written.first > 0);
  return kerncap::test::exit_code();
}
