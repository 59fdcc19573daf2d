// Dispatches before the first one that is wanted are only counted, each once, whichever way their launches go: those on streams on
// which a graph may be recorded take a longer one. Driver and CUPTI are stubs (stub_cuda.hpp).
#include "stub_cuda.hpp"

using namespace kerncap::test;

namespace {

constexpr std::uint64_t k_first = 3000;
constexpr int k_threads = 4;
const auto k_function = handle<CUfunction>(0x2000);

void the_first_wanted_one_is_found_among_those_of_several_threads(Collector& collector) {
  std::vector<std::thread> threads;
  for (int i = 0; i < k_threads; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 1000; ++round) Launch(k_function, 1, round % 3 == 0 ? handle<CUstream>(0x3000) : nullptr).run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Heard heard = collector.heard();
  CHECK(heard.captures.size() == 1 && heard.captures[0].index_of_kernel == k_first);
  CHECK(heard.failures.empty());
}

void failed_ones_do_not_count() {
  for (int i = 0; i < 10; ++i) Launch(k_function).run(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK(g_tool->channel->control().matched[0] == 0);
  CHECK(g_tool->own.launches == 0 && g_tool->own.launching == 0);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Collector& collector = start_library({.first = k_first});
  std::string cubin = read_file(argv[1]);
  load_cubin(cubin);
  failed_ones_do_not_count();
  the_first_wanted_one_is_found_among_those_of_several_threads(collector);
  return kerncap::test::exit_code();
}
