// What the queue callback costs for dispatches that nobody wants: as many kernels in the table as a large library has,
// a writer that does nothing, no device. Prints nanoseconds for each dispatch, and how often memory was allocated.
//   callback_bench CALLS PACKETS THREADS
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "hsa/queues.hpp"
#include "hsa/tool.hpp"

namespace {
thread_local std::uint64_t t_allocations = 0;  // of this thread: the one of the channel may allocate meanwhile
kerncap::hsa::Tool* g_tool = nullptr;
void* (*volatile g_take)(std::size_t) = std::malloc;  // not seen through, or the compiler takes them for mismatched
void (*volatile g_give)(void*) = std::free;
}  // namespace

void* operator new(std::size_t size) {
  ++t_allocations;
  if (void* memory = g_take(size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { g_give(memory); }
void operator delete(void* memory, std::size_t) noexcept { g_give(memory); }

namespace kerncap::hsa {
Tool* tool() noexcept { return g_tool; }
}  // namespace kerncap::hsa

using namespace kerncap::hsa;

int main(int, char** argv) {
  const std::uint64_t calls = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t packets = std::strtoull(argv[2], nullptr, 10);
  const int threads = std::atoi(argv[3]);
  const auto connected = kerncap::capture::Channel::connect(std::getenv("KERNCAP_SOCKET"), "hsa");
  if (!connected) return 1;
  g_tool = new Tool(*connected.value(), {});
  g_tool->enabled.store(true);
  constexpr std::uint64_t k_kernels = 20000;
  for (std::uint64_t i = 1; i <= k_kernels; ++i) {
    Kernel kernel;
    kernel.id = static_cast<std::uint32_t>(i);
    g_tool->kernels.add(0x7f0000000000 + i * 256, kernel);
  }
  std::vector<std::thread> running;
  std::atomic<std::uint64_t> written{0};
  std::atomic<double> total_ns{0};
  std::atomic<std::uint64_t> of_threads{0};
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      std::vector<Packet> batch(packets);
      for (std::uint64_t i = 0; i < packets; ++i) {
        hsa_kernel_dispatch_packet_t dispatch{};
        dispatch.header = HSA_PACKET_TYPE_KERNEL_DISPATCH;
        dispatch.kernel_object = 0x7f0000000000 + (1 + (i * 7919 + static_cast<unsigned>(t)) % k_kernels) * 256;
        batch[i] = to_packet(dispatch);
      }
      std::vector<Packet> ring(1024);
      hsa_queue_t handle{};
      handle.base_address = ring.data();
      handle.size = 1024;
      Queue queue;
      queue.handle = &handle;
      queue.size = handle.size;
      queue.marked = true;
      std::vector<Packet> scratch(2048);
      queue.scratch = scratch.data();
      const std::uint64_t before = t_allocations;
      const auto begin = std::chrono::steady_clock::now();
      for (std::uint64_t i = 0; i < calls; ++i) {
        on_packets(batch.data(), packets, i, &queue, [](const void*, std::uint64_t) {});
      }
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
      of_threads += t_allocations - before;
      written += calls * packets;
      total_ns.store(total_ns.load() + took.count());
    });
  }
  for (std::thread& thread : running) thread.join();
  std::printf("ns_per_dispatch %.2f\n", total_ns.load() / threads / static_cast<double>(calls * packets));
  std::printf("allocations %lu\n", static_cast<unsigned long>(of_threads.load()));
  std::printf("counted %d\n", g_tool->channel->control().dispatches.load() == written.load());
  std::fflush(stdout);
  _exit(0);
}
