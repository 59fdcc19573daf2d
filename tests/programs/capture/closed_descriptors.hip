// Closes all sockets that it finds open between two dispatches of `target`, and opens a file in the place of each.
// Prints how many bytes others then wrote into these files. usage: closed_descriptors FOLDER
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "hip_check.hpp"

__global__ void target(unsigned* word) { *word += 1; }

int main(int, char** argv) {
  Tally tally("closed_descriptors");
  const DeviceArray<unsigned> word(std::vector<unsigned>(1, 0));
  target<<<1, 1>>>(word.get());
  HIP_DONE();
  std::vector<int> files;
  for (int fd = 3; fd < 1024; ++fd) {
    struct stat status{};
    if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    const std::string path = std::string(argv[1]) + "/file" + std::to_string(fd);
    const int file = open(path.c_str(), O_CREAT | O_RDWR, 0600);
    dup2(file, fd);
    close(file);
    files.push_back(fd);
  }
  for (int i = 0; i < 2; ++i) {
    target<<<1, 1>>>(word.get());
    HIP_DONE();
  }
  tally.equal("word", word.read(), std::vector<unsigned>{3});
  for (const int fd : files) {
    struct stat status{};
    fstat(fd, &status);
    std::printf("closed %d bytes %lld\n", fd, static_cast<long long>(status.st_size));
  }
  return tally.finish();
}
