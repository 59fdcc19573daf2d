// Two workers, and the host, at the same words at the same time.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/wave_lanes.hpp"
#include "softgpu/isa/decoder.hpp"

#include "machine.hpp"

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

namespace {

constexpr std::uint64_t k_va = 0x40000000;
constexpr int k_rounds = 4000;

struct Shared {
  AddressSpace space;
  alignas(64) std::uint64_t words[64] = {};
  Shared() { space.map({k_va, k_va + sizeof words, reinterpret_cast<std::uint64_t>(words) - k_va, Rights::read | Rights::write}); }
};

// A wave of its own for each thread: v0, v1 address, v2.. data, v8.. old value.
struct Runner {
  Target target;
  WaveContext wave;
  std::unique_ptr<WorkerState> worker = std::make_unique<WorkerState>();
  std::vector<Row> vgpr = std::vector<Row>(16);
  Instruction instruction;

  Runner(Target target_, const char* mnemonic, bool returns) : target(target_) {
    wave.vgpr = vgpr.data();
    wave.target = target;
    wave.worker = worker.get();
    wave.set_mode(k_mode_default_float);
    wave.set_exec(k_all_lanes);
    const Machine encoder(target, 1);
    Fields f;
    f.data0 = 2, f.vdst = 8, f.glc = returns;
    const Code code = encoder.encode(*encoder.find(mnemonic), f);
    if (decode(target, code.words, instruction) != DecodeStatus::ok) fail("%s does not decode", mnemonic);
    instruction.handler = HandlerTable::instance(k_lanes).bind(target, instruction);
  }
  void address(unsigned word_bytes, unsigned slots) {
    for (unsigned lane = 0; lane < k_lanes; ++lane) {
      vgpr[0].lane[lane] = static_cast<std::uint32_t>(k_va) + lane % slots * word_bytes;
      vgpr[1].lane[lane] = 0;
    }
  }
  template <class Each>
  void run(const AddressSpace& space, int rounds, Each&& each) {
    for (int i = 0; i < rounds; ++i) {
      const AddressSpace::View view(space);
      worker->memory.begin_slice(space, view);
      if (instruction.handler(wave, instruction) != Flow::next) fail("fault: %s", describe(wave.fault).c_str());
      worker->memory.end_slice();
      each(i);
    }
  }
};

// Sums of n threads and the host are exact, whatever the interleaving.
template <class T, class One, class Sum>
void sums(Target target, const char* mnemonic, One one, Sum sum_of_word) {
  Shared shared;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      Runner runner(target, mnemonic, false);
      runner.address(sizeof(T), 4);
      for (unsigned lane = 0; lane < k_lanes; ++lane) std::memcpy(&runner.vgpr[2].lane[lane], &one, 4);
      if (sizeof(T) == 8) {
        const T value = static_cast<T>(one);
        std::uint32_t halves[2];
        std::memcpy(halves, &value, 8);
        for (unsigned lane = 0; lane < k_lanes; ++lane) runner.vgpr[2].lane[lane] = halves[0], runner.vgpr[3].lane[lane] = halves[1];
      }
      runner.run(shared.space, k_rounds, [](int) {});
    });
  }
  for (auto& thread : threads) thread.join();
  for (unsigned i = 0; i < 4; ++i) {
    const double sum = sum_of_word(reinterpret_cast<std::byte*>(shared.words) + i * sizeof(T));
    if (sum != 2.0 * (k_lanes / 4) * k_rounds) fail("%s: word %u is %g", mnemonic, i, sum);
  }
}

// Every ticket of a returning add is given once; a lock by compare-and-swap is held by one at a time.
void tickets(Target target) {
  Shared shared;
  std::vector<std::vector<std::uint32_t>> taken(2);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Runner runner(target, "global_atomic_add", true);
      runner.address(4, 1);
      for (auto& one : runner.vgpr[2].lane) one = 1;
      runner.run(shared.space, k_rounds / 4, [&](int) {
        taken[t].insert(taken[t].end(), runner.vgpr[8].lane, runner.vgpr[8].lane + k_lanes);
      });
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<bool> seen(2 * k_lanes * (k_rounds / 4));
  for (const auto& list : taken) {
    for (const std::uint32_t ticket : list) {
      if (ticket >= seen.size() || seen[ticket]) return fail("ticket %u was given twice", ticket);
      seen[ticket] = true;
    }
  }
}

// A 64-bit store is seen whole by 64-bit loads: both halves always agree.
void whole_words(Target target) {
  Shared shared;
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    Runner runner(target, "global_store_dwordx2", false);
    runner.address(8, 64);
    std::uint32_t value = 0;
    runner.run(shared.space, k_rounds * 4, [&](int) {
      ++value;
      for (unsigned lane = 0; lane < k_lanes; ++lane) runner.vgpr[2].lane[lane] = runner.vgpr[3].lane[lane] = value;
    });
    stop = true;
  });
  Runner runner(target, "global_load_dwordx2", false);
  runner.address(8, 64);
  while (!stop) {
    runner.run(shared.space, 1, [&](int) {
      for (unsigned lane = 0; lane < k_lanes; ++lane) {
        if (runner.vgpr[8].lane[lane] != runner.vgpr[9].lane[lane]) fail("half of a 64-bit store was seen");
      }
    });
  }
  writer.join();
}

template <class T>
double number_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

}  // namespace

int main() {
  for (const Target target : {Target::gfx90a, Target::gfx942}) {
    sums<std::uint32_t>(target, "global_atomic_add", std::uint32_t{1}, number_at<std::uint32_t>);
    sums<std::uint32_t>(target, "global_atomic_inc", ~std::uint32_t{0}, number_at<std::uint32_t>);
    sums<std::uint64_t>(target, "global_atomic_add_x2", std::uint64_t{1}, number_at<std::uint64_t>);
    sums<float>(target, "global_atomic_add_f32", 1.0F, number_at<float>);
    sums<double>(target, "global_atomic_add_f64", 1.0, number_at<double>);
    tickets(target);
    whole_words(target);
  }
  return failures() != 0;
}
