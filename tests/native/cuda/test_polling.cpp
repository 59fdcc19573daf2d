// A wait ends with the work, with its failure, or by the deadline. The driver is a table of functions of ours.
#include <chrono>

#include "../check.hpp"
#include "cuda/api.hpp"
#include "cuda/polling.hpp"

using namespace kerncap::cuda;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds k_limit{50};
constexpr std::chrono::seconds k_soon{5};   // long before it the machine has given this thread a processor
const auto k_stream = reinterpret_cast<CUstream>(0x2000);
const auto k_event = reinterpret_cast<CUevent>(0x3000);

int g_asked = 0;
int g_ends_after = -1;                 // questions; -1: never
CUresult g_status = CUDA_SUCCESS;      // then

CUresult answer() { return ++g_asked > g_ends_after && g_ends_after >= 0 ? g_status : CUDA_ERROR_NOT_READY; }

template <typename Handle>
void what_never_ends_is_given_up_by_the_deadline(Handle what) {
  g_ends_after = -1;
  const auto deadline = Clock::now() + k_limit;
  CHECK(poll(what, deadline) == CUDA_ERROR_NOT_READY);
  CHECK(Clock::now() > deadline && Clock::now() < deadline + k_soon);
}

template <typename Handle>
void what_has_failed_ends_the_wait_at_once(Handle what) {
  g_asked = g_ends_after = 0;
  g_status = CUDA_ERROR_ILLEGAL_ADDRESS;
  CHECK(poll(what, Clock::now() + std::chrono::hours(1)) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(g_asked == 1);
}

template <typename Handle>
void what_ends_later_is_waited_for(Handle what) {
  g_asked = 0;
  g_ends_after = 30;
  g_status = CUDA_SUCCESS;
  CHECK(poll(what, Clock::now() + std::chrono::hours(1)) == CUDA_SUCCESS);
  CHECK(g_asked == 31);
}

template <typename Handle>
void behind_the_deadline_it_is_asked_once(Handle what) {
  g_asked = 0;
  g_ends_after = -1;
  CHECK(poll(what, Deadline::min()) == CUDA_ERROR_NOT_READY && g_asked == 1);
}

template <typename Handle>
void test(Handle what) {
  what_never_ends_is_given_up_by_the_deadline(what);
  what_has_failed_ends_the_wait_at_once(what);
  what_ends_later_is_waited_for(what);
  behind_the_deadline_it_is_asked_once(what);
}

}  // namespace

int main() {
  auto& table = const_cast<Driver&>(driver());
  table.cuStreamQuery = [](CUstream stream) { return stream == k_stream ? answer() : CUDA_ERROR_INVALID_HANDLE; };
  table.cuEventQuery = [](CUevent event) { return event == k_event ? answer() : CUDA_ERROR_INVALID_HANDLE; };
  test(k_stream);
  test(k_event);
  return kerncap::test::exit_code();
}
