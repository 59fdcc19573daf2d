// Queues: barrier-and, barrier-or and barrier-value packets, more packets than the ring holds, several queues at once.
#include "hsa_check.hpp"

namespace {

void barrier_and(hsa_queue_t* queue, std::vector<hsa_signal_t> needed, hsa_signal_t done) {
  hsa_barrier_and_packet_t packet{};
  for (std::size_t i = 0; i < needed.size(); ++i) packet.dep_signal[i] = needed[i];
  packet.completion_signal = done;
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_BARRIER_AND, false), 0);
}

void barrier_or(hsa_queue_t* queue, std::vector<hsa_signal_t> needed, hsa_signal_t done) {
  hsa_barrier_or_packet_t packet{};
  for (std::size_t i = 0; i < needed.size(); ++i) packet.dep_signal[i] = needed[i];
  packet.completion_signal = done;
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_BARRIER_OR, false), 0);
}

void barrier_value(hsa_queue_t* queue, hsa_signal_t needed, hsa_signal_value_t at_least, hsa_signal_t done) {
  hsa_amd_barrier_value_packet_t packet{};
  packet.signal = needed;
  packet.value = at_least;
  packet.mask = ~hsa_signal_value_t{0};
  packet.cond = HSA_SIGNAL_CONDITION_GTE;
  packet.completion_signal = done;
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_VENDOR_SPECIFIC, false), HSA_AMD_PACKET_TYPE_BARRIER_VALUE);
}

}  // namespace

int main() {
  const Machine machine;
  Tally tally("hsa_queue");
  const hsa_agent_t gpu = machine.gpus[0].handle;
  hsa_queue_t* queues[3];
  for (hsa_queue_t*& queue : queues)
    HSA_OK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue));

  {
    const Signal done(1);
    barrier_and(queues[0], {}, done);
    done.wait("a barrier without dependencies");
    tally.equal("empty barrier", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{0});
  }
  {
    const Signal first(1), second(1), done(1);
    barrier_and(queues[0], {first, second}, done);
    hsa_signal_store_screlease(first, 0);
    tally.equal("barrier-and still waits", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{1});
    hsa_signal_store_screlease(second, 0);
    done.wait("barrier-and");
    tally.equal("barrier-and", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{0});
  }
  {
    const Signal first(1), second(1), done(1);
    barrier_or(queues[1], {first, second}, done);
    hsa_signal_store_screlease(second, 0);
    done.wait("barrier-or");
    tally.equal("barrier-or", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{0});
  }
  {
    const Signal value(3), done(1);
    barrier_value(queues[2], value, 10, done);
    hsa_signal_add_screlease(value, 6);
    tally.equal("barrier-value still waits", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{1});
    hsa_signal_add_screlease(value, 1);
    done.wait("barrier-value");
    tally.equal("barrier-value", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{0});
  }
  {
    constexpr int k_packets = 500;  // the ring holds 64
    const Signal done(k_packets);
    for (int i = 0; i < k_packets; ++i) barrier_and(queues[0], {}, done);
    done.wait("many packets");
    tally.equal("many packets", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{0});
    tally.expect(hsa_queue_load_read_index_scacquire(queues[0]) <= hsa_queue_load_write_index_scacquire(queues[0]),
                 "read index", 0, 1, 0);
  }
  {
    // A chain over three queues, submitted from its end.
    const Signal start(1), middle(1), end(1), done(1);
    barrier_and(queues[2], {end}, done);
    barrier_and(queues[1], {middle}, end);
    barrier_and(queues[0], {start}, middle);
    tally.equal("the chain waits", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{1});
    hsa_signal_store_screlease(start, 0);
    done.wait("a chain over three queues");
    tally.equal("chain", 0, hsa_signal_load_scacquire(done), hsa_signal_value_t{0});
  }
  for (hsa_queue_t* queue : queues) HSA_OK(hsa_queue_destroy(queue));
  return tally.finish();
}
