// Names out of a cubin of nvcc's, and out of what is left of it when bytes are missing or changed.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "../check.hpp"
#include "cuda/cubin.hpp"

using namespace kerncap::cuda;

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "", std::ios::binary);
  const std::vector<char> raw((std::istreambuf_iterator<char>(file)), {});
  CHECK(raw.size() > 1000);
  const auto bytes = std::as_bytes(std::span(raw));
  CubinSymbols symbols = read_cubin(bytes);
  std::sort(symbols.kernels.begin(), symbols.kernels.end());
  CHECK(symbols.kernels == std::vector<std::string_view>{"_Z8allocatePPi", "_Z9incrementIfEvPT_", "add"});
  CHECK(symbols.variables.size() == 2);
  CHECK(symbols.uses_heap);
  for (const CubinVariable& variable : symbols.variables) {
    CHECK(variable.name == "bias" || variable.name == "scale_by");
    CHECK(variable.is_const == (variable.name == "scale_by"));
    CHECK(variable.bytes == (variable.name == "bias" ? 16 : 4));
  }
  for (std::size_t length = 0; length < bytes.size(); length += 37) (void)read_cubin(bytes.first(length));
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> changed = raw;
    for (int i = 0; i < 4; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    (void)read_cubin(std::as_bytes(std::span(changed)));  // must end, and read nothing outside
  }
  return kerncap::test::exit_code();
}
