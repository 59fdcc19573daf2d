// A program that ends while a thread of ours reads its records loses none of them. Driver and CUPTI are stubs (stub_cuda.hpp).
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

const auto k_main = std::this_thread::get_id();
CUpti_BuffersCallbackRequestFunc g_give = nullptr;
CUpti_BuffersCallbackCompleteFunc g_take = nullptr;
std::atomic<bool> g_is_fetched{false};
CUpti_ActivityKernel10 g_record{};

// The first to ask gets the one buffer that there is, and takes its time.
CUptiResult CUPTIAPI flush_all(std::uint32_t) {
  if (std::this_thread::get_id() == k_main || g_is_fetched.exchange(true)) return CUPTI_SUCCESS;
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0;
  std::size_t most = 0;
  g_give(&buffer, &bytes, &most);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  g_take(nullptr, 0, buffer, bytes, sizeof g_record);
  return CUPTI_SUCCESS;
}

}  // namespace

int main() {
  start_library({});
  auto& cupti_table = const_cast<Cupti&>(cupti());
  cupti_table.cuptiActivityRegisterCallbacks = [](CUpti_BuffersCallbackRequestFunc give, CUpti_BuffersCallbackCompleteFunc take) {
    g_give = give;
    g_take = take;
    return CUPTI_SUCCESS;
  };
  cupti_table.cuptiActivityFlushAll = flush_all;
  cupti_table.cuptiActivityGetNextRecord = [](std::uint8_t*, std::size_t, CUpti_Activity** record) {
    if (*record != nullptr) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    g_record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;   // and no times
    *record = reinterpret_cast<CUpti_Activity*>(&g_record);
    return CUPTI_SUCCESS;
  };
  CHECK(static_cast<bool>(tool()->profiler.start()));
  while (!g_is_fetched) std::this_thread::yield();
  tool()->profiler.finish();
  CHECK(tool()->channel->control().dispatches.load() == 1);
  return kerncap::test::exit_code();
}
