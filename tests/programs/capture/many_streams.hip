// One dispatch of `target` between dispatches of `other` in more streams than the device has queues: HIP has memory for the
// arguments of each stream, and goes on filling it while `target` is held. The last stream is new then.
#include "hip_check.hpp"

__global__ void other(unsigned* word, unsigned by) { atomicAdd(word, by); }
__global__ void target(unsigned* word) { *word += 1; }

int main() {
  constexpr unsigned k_streams = 12, k_late = 20;
  Tally tally("many_streams");
  const DeviceArray<unsigned> words(std::vector<unsigned>(2, 0));
  const DeviceArray<unsigned> counts(std::vector<unsigned>(k_streams, 0));
  std::vector<unsigned> expected(k_streams, 0);
  std::vector<hipStream_t> streams(k_streams);
  for (hipStream_t& stream : streams) HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  const auto launch = [&](unsigned end, unsigned by) {
    for (unsigned i = 1; i < end; ++i) {
      other<<<1, 1, 0, streams[i]>>>(counts.get() + i, by);
      expected[i] += by;
    }
  };
  launch(k_streams - 1, 1);
  HIP_DONE();
  target<<<1, 1, 0, streams[0]>>>(words.get());
  for (unsigned round = 0; hipStreamQuery(streams[0]) == hipErrorNotReady; ++round) {
    launch(round < k_late ? k_streams - 1 : k_streams, round);
  }
  HIP_DONE();
  tally.equal("word", words.read(), std::vector<unsigned>{1, 0});
  tally.equal("counts", counts.read(), expected);
  return tally.finish();
}
