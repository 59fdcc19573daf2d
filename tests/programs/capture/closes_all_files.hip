// Closes all descriptors from 3 on, ROCr's and the capture library's among them, a while after its first dispatch was
// submitted; makes two more; ends by _exit(). HIP hangs or aborts where it frees memory behind that, with any tool or none.
// usage: closes_all_files DELAY_US
#include <unistd.h>

#include "hip_check.hpp"

__global__ void target(unsigned* word) { *word += 1; }

int main(int, char** argv) {
  Tally tally("closes_all_files");
  const DeviceArray<unsigned> word(std::vector<unsigned>(1, 0));
  target<<<1, 1>>>(word.get());
  usleep(static_cast<useconds_t>(std::atoi(argv[1])));
  closefrom(3);
  for (int i = 0; i < 2; ++i) {
    target<<<1, 1>>>(word.get());
    HIP_DONE();
  }
  tally.equal("word", word.read(), std::vector<unsigned>{3});
  _exit(tally.finish());
}
