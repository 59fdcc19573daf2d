// The interpreter's speed: ALU code, global loads, matrix instructions, and a second core. Prints one line each with the
// bar that it has to pass; exit 1 when one does not.
#include <algorithm>
#include <cstdio>

#include "kernel_harness.hpp"

namespace {

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::testing;

constexpr std::uint32_t k_alu[] = {
    0xB0044000,              // s_movk_i32 s4, 0x4000
    0x02020702,              // v_add_f32 v1, v2, v3
    0xD1CB0004, 0x040E0501,  // v_fma_f32 v4, v1, v2, v3
    0x680A0105,              // v_add_u32 v5, v5, v0
    0x240C0A83,              // v_lshlrev_b32 v6, 3, v5
    0x2A0E0B06,              // v_xor_b32 v7, v6, v5
    0x0A100304,              // v_mul_f32 v8, v4, v1
    0x16120908,              // v_max_f32 v9, v8, v4
    0x26140EFF, 0x000000FF,  // v_and_b32 v10, 0xff, v7
    0x7D980B0A,              // v_cmp_gt_u32 vcc, v10, v5
    0x00160B0A,              // v_cndmask_b32 v11, v10, v5, vcc
    0x80848104,              // s_sub_u32 s4, s4, 1
    0xBF078004,              // s_cmp_lg_u32 s4, 0
    0xBF85FFF1,              // s_cbranch_scc1 -15
    0xBF810000,              // s_endpgm
};
constexpr std::uint32_t k_load[] = {
    0xB0044000,              // s_movk_i32 s4, 0x4000
    0x24040082,              // v_lshlrev_b32 v2, 2, v0
    0xDC508000, 0x03000002,  // global_load_dword v3, v2, s[0:1], then seven more of the next 256 bytes
    0xDC508100, 0x04000002, 0xDC508200, 0x05000002, 0xDC508300, 0x06000002, 0xDC508400, 0x07000002,
    0xDC508500, 0x08000002, 0xDC508600, 0x09000002, 0xDC508700, 0x0A000002,
    0x80848104,  // s_sub_u32 s4, s4, 1
    0xBF078004,  // s_cmp_lg_u32 s4, 0
    0xBF85FFED,  // s_cbranch_scc1 -19
    0xBF810000,  // s_endpgm
};
constexpr std::uint32_t k_matrix[] = {
    0xB0040800,              // s_movk_i32 s4, 0x800
    0xD3CC0010, 0x04420902,  // v_mfma_f32_32x32x8f16 v[16:31], v[2:3], v[4:5], v[16:31]
    0xD3CC0020, 0x04820902,  // the same of v[32:47]
    0xD3CC0010, 0x04420902, 0xD3CC0020, 0x04820902,
    0x80848104,  // s_sub_u32 s4, s4, 1
    0xBF078004,  // s_cmp_lg_u32 s4, 0
    0xBF85FFF5,  // s_cbranch_scc1 -11
    0xBF810000,  // s_endpgm
};

// The best of several runs, in nanoseconds: other programs only ever make it slower.
double best_ns(unsigned workers, std::span<const std::uint32_t> code, std::uint32_t groups, std::uint64_t& instructions) {
  Engine engine(workers);
  const Kernel kernel(code);
  double best = 1e18;
  for (int i = 0; i < 7; ++i) {
    const DispatchOutcome outcome = start(engine, kernel.dispatch(groups)).get();
    instructions = outcome.counts.total;
    best = std::min(best, static_cast<double>(outcome.end_ns - outcome.begin_ns));
  }
  return best;
}

bool report(const char* what, double value, const char* unit, double bar, bool at_least) {
  const bool passed = at_least ? value >= bar : value <= bar;
  std::printf("%-42s %8.2f %-22s %s %.2f: %s\n", what, value, unit, at_least ? "at least" : "at most", bar, passed ? "yes" : "NO");
  return passed;
}

}  // namespace

int main() {
  if (const char* problem = Engine::host_problem()) {
    std::fprintf(stderr, "engine_bench: %s\n", problem);
    return 1;
  }
  std::uint64_t executed = 0;
  const double alu = best_ns(1, k_alu, 8, executed);
  bool passed = report("ALU code, one core", static_cast<double>(executed) * 1000 / alu, "M wave-instructions/s", 25, true);
  const double load = best_ns(1, k_load, 1, executed);
  passed &= report("global load, 64 lanes x 4 bytes", load / (8.0 * 0x4000), "ns", 60, false);
  const double matrix = best_ns(1, k_matrix, 1, executed);
  passed &= report("MFMA 32x32x8 f16", matrix / (4.0 * 0x800) / 1000, "us", 0.6, false);
  const double alu_two = best_ns(2, k_alu, 8, executed);
  passed &= report("two cores against one", alu / alu_two, "times", 1.7, true);
  return passed ? 0 : 1;
}
