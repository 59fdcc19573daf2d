// idle_queue SECONDS: prints the percentage of one core that the process takes while its queues have nothing to do, and
// while one waits for the host.
#include <sys/resource.h>
#include <unistd.h>

#include "hsa_check.hpp"

namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

double percent_over(unsigned seconds) {
  sleep(1);  // whatever still lingers
  const double before = cpu_seconds();
  sleep(seconds);
  return (cpu_seconds() - before) / seconds * 100;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned seconds = argc == 2 ? static_cast<unsigned>(std::atoi(argv[1])) : 2;
  const Machine machine;
  hsa_queue_t* queue;
  HSA_OK(hsa_queue_create(machine.gpus[0].handle, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue));
  const Signal first(1), needed(1), last(1);
  hsa_barrier_and_packet_t packet{};
  packet.completion_signal = first;
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_BARRIER_AND, true), 0);
  first.wait("a barrier");
  const double idle = percent_over(seconds);

  packet.dep_signal[0] = needed;
  packet.completion_signal = last;
  submit(queue, packet, packet_header(HSA_PACKET_TYPE_BARRIER_AND, true), 0);
  const double waiting = percent_over(seconds);
  hsa_signal_store_screlease(needed, 0);
  last.wait("the host's signal");
  std::printf("{\"idle_percent\": %.3f, \"waiting_percent\": %.3f}\n", idle, waiting);
  HSA_OK(hsa_queue_destroy(queue));
  return 0;
}
