// Time of one memory instruction of a full wave, page-table checks included. Prints NAME NANOSECONDS, one a line; the best
// of several runs, as the machine may be busy. With --bar NAME=NS … it fails when one is slower.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "machine.hpp"

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

namespace {

constexpr unsigned k_address = 4, k_data = 16;
constexpr int k_batch = 20000, k_batches = 15;

enum class Pattern { contiguous, uniform, strided, scattered };

struct Bench {
  const char* name;
  const char* mnemonic;
  Pattern pattern;
  enum { vector, scalar, lds, stack } form;
  unsigned size;
  bool half_masked;
};

constexpr Bench k_benches[] = {
    {"global_load_dword", "global_load_dword", Pattern::contiguous, Bench::vector, 4, false},
    {"global_load_dword saddr", "global_load_dword", Pattern::contiguous, Bench::scalar, 4, false},
    {"global_load_dword masked", "global_load_dword", Pattern::contiguous, Bench::vector, 4, true},
    {"global_load_dword uniform", "global_load_dword", Pattern::uniform, Bench::vector, 4, false},
    {"global_load_dword strided", "global_load_dword", Pattern::strided, Bench::vector, 4, false},
    {"global_load_dword scattered", "global_load_dword", Pattern::scattered, Bench::vector, 4, false},
    {"global_load_dwordx2", "global_load_dwordx2", Pattern::contiguous, Bench::vector, 8, false},
    {"global_load_dwordx4", "global_load_dwordx4", Pattern::contiguous, Bench::vector, 16, false},
    {"global_load_dwordx4 scattered", "global_load_dwordx4", Pattern::scattered, Bench::vector, 16, false},
    {"global_load_ushort", "global_load_ushort", Pattern::contiguous, Bench::vector, 2, false},
    {"global_load_short_d16_hi", "global_load_short_d16_hi", Pattern::contiguous, Bench::vector, 2, false},
    {"global_store_dword", "global_store_dword", Pattern::contiguous, Bench::vector, 4, false},
    {"global_store_dword scattered", "global_store_dword", Pattern::scattered, Bench::vector, 4, false},
    {"global_store_dwordx4", "global_store_dwordx4", Pattern::contiguous, Bench::vector, 16, false},
    {"flat_load_dword", "flat_load_dword", Pattern::contiguous, Bench::vector, 4, false},
    {"global_atomic_add scattered", "global_atomic_add", Pattern::scattered, Bench::vector, 4, false},
    {"global_atomic_add_f32 uniform", "global_atomic_add_f32", Pattern::uniform, Bench::vector, 4, false},
    {"buffer_load_dword stack", "buffer_load_dword", Pattern::uniform, Bench::stack, 4, false},
    {"buffer_store_dword stack", "buffer_store_dword", Pattern::uniform, Bench::stack, 4, false},
    {"ds_read_b32", "ds_read_b32", Pattern::contiguous, Bench::lds, 4, false},
    {"ds_read_b32 scattered", "ds_read_b32", Pattern::scattered, Bench::lds, 4, false},
    {"ds_read_b64", "ds_read_b64", Pattern::contiguous, Bench::lds, 8, false},
    {"ds_read_b128", "ds_read_b128", Pattern::contiguous, Bench::lds, 16, false},
    {"ds_write_b32", "ds_write_b32", Pattern::contiguous, Bench::lds, 4, false},
    {"ds_write_b128", "ds_write_b128", Pattern::contiguous, Bench::lds, 16, false},
    {"ds_bpermute_b32", "ds_bpermute_b32", Pattern::scattered, Bench::lds, 4, false},
    {"ds_add_u32 scattered", "ds_add_u32", Pattern::scattered, Bench::lds, 4, false},
};

double nanoseconds(const Bench& bench) {
  Machine m(Target::gfx90a, 1);
  State state = m.random_state();
  const std::uint64_t mask = bench.half_masked ? 0x00000000FFFFFFFFU : k_all_lanes;
  std::memcpy(&state.sgpr[k_exec], &mask, 8);
  Fields f;
  f.addr = k_address, f.data0 = k_data, f.vdst = 32;
  for (unsigned lane = 0; lane < k_lanes; ++lane) {
    std::uint64_t offset = 0;
    switch (bench.pattern) {
      case Pattern::contiguous: offset = lane * bench.size; break;
      case Pattern::uniform: offset = 64; break;
      case Pattern::strided: offset = lane * 128; break;
      case Pattern::scattered: offset = m.random(4096 / bench.size) * bench.size; break;
    }
    if (bench.form == Bench::vector) offset += k_memory_va;
    state.vgpr[k_address].lane[lane] = static_cast<std::uint32_t>(offset);
    state.vgpr[k_address + 1].lane[lane] = static_cast<std::uint32_t>(offset >> 32);
  }
  if (bench.form == Bench::scalar) {
    f.saddr = 8;
    std::memcpy(&state.sgpr[8], &k_memory_va, 8);
  }
  if (bench.form == Bench::stack) {
    const std::uint32_t words[4] = {static_cast<std::uint32_t>(k_scratch_va),
                                    static_cast<std::uint32_t>(k_scratch_va >> 32) | (1U << 31), ~0U, (1U << 23) | (3U << 21)};
    std::memcpy(&state.sgpr[12], words, 16);
    state.sgpr[20] = 1024;
    f.srsrc = 12, f.soffset = 20, f.offset = 8;
  }
  const Opcode* opcode = m.find(bench.mnemonic);
  const Instruction* instruction = opcode == nullptr ? nullptr : m.bind(m.encode(*opcode, f));
  if (instruction == nullptr) {
    std::fprintf(stderr, "bench_memory: %s cannot be executed\n", bench.mnemonic);
    std::exit(2);
  }
  double best = 1e9;
  m.repeat(*instruction, state, [&](auto&& once) {
    for (int batch = 0; batch < k_batches; ++batch) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < k_batch; ++i) once();
      const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
      best = std::min(best, time.count() / k_batch);
    }
  });
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, double> measured;
  for (const Bench& bench : k_benches) {
    measured[bench.name] = nanoseconds(bench);
    std::printf("%-32s %7.1f\n", bench.name, measured[bench.name]);
  }
  int status = 0;
  for (int i = 2; i < argc && std::strcmp(argv[1], "--bar") == 0; ++i) {
    const std::string bar = argv[i];
    const auto equals = bar.find('=');
    const double limit = std::atof(bar.c_str() + equals + 1);
    const auto found = measured.find(bar.substr(0, equals));
    if (found == measured.end() || found->second > limit) {
      std::fprintf(stderr, "bench_memory: %s misses its bar\n", bar.c_str());
      status = 1;
    }
  }
  return status;
}
