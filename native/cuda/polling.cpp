// Short work ends within microseconds, but a thread that sleeps wakes up some fifty later: at first it does not sleep. Later it sleeps for
// an eighth of the time that has passed, at most k_longest_pause: the program's threads and the collector need the processors.
#include "cuda/polling.hpp"

#include <algorithm>
#include <thread>

#include "cuda/api.hpp"

namespace kerncap::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds k_awake_for{40};
constexpr Clock::duration k_longest_pause = std::chrono::microseconds(200);

template <typename Handle>
CUresult ask(CUresult(CUDAAPI* query)(Handle), Handle what, Deadline deadline) noexcept {
  const auto begin = Clock::now();
  CUresult status = query(what);
  for (auto now = begin; status == CUDA_ERROR_NOT_READY && now <= deadline; now = Clock::now()) {
    if (now - begin > k_awake_for) std::this_thread::sleep_for(std::min((now - begin) / 8, k_longest_pause));
    status = query(what);
  }
  return status;
}

}  // namespace

CUresult poll(CUstream stream, Deadline deadline) noexcept { return ask(driver().cuStreamQuery, stream, deadline); }

CUresult poll(CUevent event, Deadline deadline) noexcept { return ask(driver().cuEventQuery, event, deadline); }

}  // namespace kerncap::cuda
