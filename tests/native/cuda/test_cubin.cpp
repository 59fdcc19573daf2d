// Names and effects out of cubins of nvcc's, and out of what is left of them when bytes are missing or changed.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../check.hpp"
#include "cuda/cubin.hpp"

using namespace kerncap::cuda;

namespace {

std::vector<char> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> raw((std::istreambuf_iterator<char>(file)), {});
  CHECK(raw.size() > 1000);
  return raw;
}

std::map<std::string, unsigned> effects_in(const std::vector<char>& raw) {
  std::map<std::string, unsigned> found;
  for (const CubinEffects& each : read_cubin(std::as_bytes(std::span(raw))).effects) found[std::string(each.kernel)] = each.effects;
  return found;
}

void what_is_left_of_it_is_read(const std::vector<char>& raw) {
  const auto bytes = std::as_bytes(std::span(raw));
  for (std::size_t length = 0; length < bytes.size(); length += 37) (void)read_cubin(bytes.first(length));
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> changed = raw;
    for (int i = 0; i < 4; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    (void)has_open_stack(std::as_bytes(std::span(changed)));
    (void)read_cubin(std::as_bytes(std::span(changed)));  // must end, and read nothing outside
  }
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 5);
  const std::vector<char> facts = read(argv[1]);
  CubinSymbols symbols = read_cubin(std::as_bytes(std::span(facts)));
  std::sort(symbols.kernels.begin(), symbols.kernels.end());
  CHECK(symbols.kernels == std::vector<std::string_view>{"_Z8allocatePPi", "_Z9incrementIfEvPT_", "add"});
  CHECK(symbols.variables.size() == 2);
  CHECK(symbols.uses_heap);
  for (const CubinVariable& variable : symbols.variables) {
    CHECK(variable.name == "bias" || variable.name == "scale_by");
    CHECK(variable.is_const == (variable.name == "scale_by"));
    CHECK(variable.bytes == (variable.name == "bias" ? 16 : 4));
  }
  using Effects = std::map<std::string, unsigned>;
  CHECK(effects_in(facts) == Effects({{"_Z8allocatePPi", k_uses_heap}}));
  const std::vector<char> prints = read(argv[2]);   // a function that is no kernel does
  CHECK(effects_in(prints) == Effects({{"_Z6printsPi", k_prints}, {"_Z10gives_backPv", k_uses_heap}}));
  CHECK(!may_launch(std::as_bytes(std::span(facts))) && !may_launch(std::as_bytes(std::span(prints))));
  const std::vector<char> launching = read(argv[3]);
  CHECK(may_launch(std::as_bytes(std::span(launching))));
  const std::vector<char> recurses = read(argv[4]);
  CHECK(!has_open_stack(std::as_bytes(std::span(facts))) && has_open_stack(std::as_bytes(std::span(recurses))));
  const Effects launches = effects_in(launching);
  CHECK(launches.at("_Z5outerPi") == k_launches && launches.at("_Z7throughPi") == k_launches && !launches.contains("_Z5innerPi"));
  what_is_left_of_it_is_read(facts);
  what_is_left_of_it_is_read(prints);
  return kerncap::test::exit_code();
}
