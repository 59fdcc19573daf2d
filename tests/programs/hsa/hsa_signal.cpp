// Signals: every operation on their value, waits with and without an end, waiting for any of several, handlers.
#include <atomic>
#include <thread>

#include "hsa_check.hpp"

int main() {
  const Machine machine;
  Tally tally("hsa_signal");
  using Value = hsa_signal_value_t;

  const Signal signal(10);
  hsa_signal_add_scacq_screl(signal, 5);
  tally.equal("add", 0, hsa_signal_load_scacquire(signal), Value{15});
  hsa_signal_subtract_scacq_screl(signal, 3);
  tally.equal("subtract", 0, hsa_signal_load_scacquire(signal), Value{12});
  hsa_signal_and_scacq_screl(signal, 6);
  tally.equal("and", 0, hsa_signal_load_scacquire(signal), Value{4});
  hsa_signal_or_scacq_screl(signal, 9);
  tally.equal("or", 0, hsa_signal_load_scacquire(signal), Value{13});
  hsa_signal_xor_scacq_screl(signal, 5);
  tally.equal("xor", 0, hsa_signal_load_scacquire(signal), Value{8});
  tally.equal("exchange gives the old", 0, hsa_signal_exchange_scacq_screl(signal, 20), Value{8});
  tally.equal("cas that fails", 0, hsa_signal_cas_scacq_screl(signal, 21, 30), Value{20});
  tally.equal("cas that works", 0, hsa_signal_cas_scacq_screl(signal, 20, 30), Value{20});
  tally.equal("after cas", 0, hsa_signal_load_scacquire(signal), Value{30});

  tally.equal("wait that ends by time", 0,
              hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, 31, 1000000, HSA_WAIT_STATE_BLOCKED), Value{30});
  std::thread setter([&signal] { hsa_signal_store_screlease(signal, 0); });
  signal.wait("another thread");
  setter.join();
  tally.equal("wait", 0, hsa_signal_load_scacquire(signal), Value{0});

  hsa_signal_t several[3];
  for (hsa_signal_t& one : several) HSA_OK(hsa_signal_create(1, 0, nullptr, &one));
  hsa_signal_condition_t conditions[3] = {HSA_SIGNAL_CONDITION_LT, HSA_SIGNAL_CONDITION_LT, HSA_SIGNAL_CONDITION_GTE};
  Value values[3] = {1, 1, 50};
  std::thread raiser([&several] { hsa_signal_store_screlease(several[2], 70); });
  Value satisfying = 0;
  const std::uint32_t which =
      hsa_amd_signal_wait_any(3, several, conditions, values, UINT64_MAX, HSA_WAIT_STATE_BLOCKED, &satisfying);
  raiser.join();
  tally.equal("wait any: index", 0, which, 2u);
  // The value that it gives back is that of the first signal, whichever was satisfied (ROCr 6.4 and 7.2).

  std::atomic<int> calls = 0;
  const auto handler = [](Value value, void* data) {
    static_cast<std::atomic<int>*>(data)->fetch_add(static_cast<int>(value) + 7);
    return false;  // once
  };
  HSA_OK(hsa_amd_signal_async_handler(several[0], HSA_SIGNAL_CONDITION_LT, 1, handler, &calls));
  hsa_signal_store_screlease(several[0], 0);
  for (int i = 0; calls == 0 && i < 60000; ++i)
    hsa_signal_wait_scacquire(several[1], HSA_SIGNAL_CONDITION_LT, 1, 1000000, HSA_WAIT_STATE_BLOCKED);
  tally.equal("handler", 0, calls.load(), 7);

  // The GPU lowers a signal; the CPU waits for it blocked, by interrupt where there is one.
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 64, HSA_QUEUE_TYPE_SINGLE, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue));
  for (int i = 0; i < 20; ++i) {
    const Signal done(1);
    hsa_barrier_and_packet_t packet{};
    packet.completion_signal = done;
    submit(queue, packet, packet_header(HSA_PACKET_TYPE_BARRIER_AND, true), 0);
    done.wait("the GPU");
    tally.equal("lowered by the GPU", i, hsa_signal_load_scacquire(done), Value{0});
  }
  HSA_OK(hsa_queue_destroy(queue));
  for (const hsa_signal_t one : several) HSA_OK(hsa_signal_destroy(one));
  return tally.finish();
}
