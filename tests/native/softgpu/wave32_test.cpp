// Waves of 32 lanes: handlers made for them do in lanes 0 to 31 what those for 64 lanes do there, and leave lanes 32 to
// 63 of every row alone; work-groups are divided into waves of 32. The instructions are those of gfx90a, which are
// implemented; those of memory have tests for both sizes in memory/.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "encodings.hpp"
#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/launch_plan.hpp"
#include "softgpu/exec/work_group.hpp"
#include "softgpu/isa/decoder.hpp"
#include "softgpu/memory/address_space.hpp"

namespace {

using namespace kerncap::softgpu;
using kerncap::softgpu::testing::encoding_of;

constexpr unsigned k_registers = 16;
constexpr int k_tries = 300;  // of each opcode

int g_failures = 0;

void require(bool condition, const char* what, std::string_view where = "waves of 32") {
  if (condition) return;
  std::fprintf(stderr, "wave32_test: %s: %s\n", std::string(where).c_str(), what);
  if (++g_failures > 20) std::exit(1);
}

struct Registers {
  std::array<Row, k_registers> vgpr, agpr;
  std::array<std::uint32_t, 144> sgpr;
};

// One instruction on a wave of as many lanes.
class Runner {
 public:
  explicit Runner(unsigned lanes) : m_table(HandlerTable::instance(lanes)) {
    m_wave->lanes = static_cast<std::uint8_t>(lanes);
    m_wave->vgpr = m_registers.vgpr.data();
    m_wave->agpr = m_registers.agpr.data();
    m_wave->vgpr_count = m_wave->agpr_count = k_registers;
    m_wave->sgpr_count = 102;
    m_wave->worker = m_worker.get();
  }

  // False: there is no handler for it.
  bool run(Instruction instruction, std::uint32_t mode, Registers& registers) {
    std::array<std::array<Row, 2>, 4> constants;
    for (unsigned i = 0; i < 4; ++i) {
      if (instruction.src[i].kind != OperandKind::constant) continue;
      std::ranges::fill(constants[i][0].lane, static_cast<std::uint32_t>(instruction.src[i].value));
      std::ranges::fill(constants[i][1].lane, static_cast<std::uint32_t>(instruction.src[i].value >> 32));
      instruction.constant_row[i] = constants[i].data();
    }
    const Handler handler = m_table.bind(Target::gfx90a, instruction);
    if (handler == nullptr) return false;
    m_registers = registers;
    m_wave->sgpr = registers.sgpr;
    m_wave->set_mode(mode);
    require(handler(*m_wave, instruction) == Flow::next, "stopped", instruction.opcode->mnemonic);
    registers = m_registers;
    registers.sgpr = m_wave->sgpr;
    return true;
  }

 private:
  const HandlerTable& m_table;
  std::unique_ptr<WaveContext> m_wave = std::make_unique<WaveContext>();
  std::unique_ptr<WorkerState> m_worker = std::make_unique<WorkerState>();
  Registers m_registers;
};

using File = std::array<Row, k_registers>;

// Which NaN an operation gives is not specified, and depends on the order in which a compiler puts its operands.
[[nodiscard]] bool same_half(std::uint32_t a, std::uint32_t b) {
  return (a & 0xFFFF) == (b & 0xFFFF) || ((a & 0x7FFF) > 0x7C00 && (b & 0x7FFF) > 0x7C00);
}
[[nodiscard]] bool is_nan(std::uint32_t f32) { return (f32 & 0x7FFFFFFF) > 0x7F800000; }
[[nodiscard]] bool is_nan_pair(const File& file, unsigned i, unsigned lane) {  // pairs begin at even registers
  const std::uint32_t high = file[i | 1].lane[lane] & 0x7FFFFFFF;
  return high > 0x7FF00000 || (high == 0x7FF00000 && file[i & ~1U].lane[lane] != 0);
}
[[nodiscard]] bool same_lane(const Instruction& in, const File& a, const File& b, unsigned i, unsigned lane) {
  const std::uint32_t x = a[i].lane[lane], y = b[i].lane[lane];
  if (x == y) return true;
  const auto computes = [&](std::string_view type) { return in.opcode->mnemonic.find(type) != std::string_view::npos; };
  return (computes("f16") && same_half(x, y) && same_half(x >> 16, y >> 16)) ||
         (computes("f32") && is_nan(x) && is_nan(y)) ||
         (computes("f64") && is_nan_pair(a, i, lane) && is_nan_pair(b, i, lane));
}
[[nodiscard]] bool same_rows(const Instruction& in, const File& a, const File& b) {
  for (unsigned i = 0; i < k_registers; ++i) {
    for (unsigned lane = 0; lane < k_max_lanes; ++lane) {
      if (lane < 32 ? !same_lane(in, a, b, i, lane) : a[i].lane[lane] != b[i].lane[lane]) return false;
    }
  }
  return true;
}

// A lane mask of 32 lanes fills one scalar register, one of 64 lanes two: the second one keeps its value.
[[nodiscard]] bool same_scalars(const Instruction& in, const Registers& before, const Registers& narrow,
                                const Registers& wide) {
  for (unsigned i = 0; i < 128; ++i) {
    if (narrow.sgpr[i] == wide.sgpr[i]) continue;
    const bool is_high = (in.dst.kind == OperandKind::sgpr && i == in.dst.index + 1U) ||
                         (in.sdst.kind == OperandKind::sgpr && i == in.sdst.index + 1U);
    if (i != k_exec + 1 && !(is_high && wide.sgpr[i] == 0 && narrow.sgpr[i] == before.sgpr[i])) return false;
  }
  return true;
}

[[nodiscard]] bool is_vector(Format format) {
  return format == Format::vop1 || format == Format::vop2 || format == Format::vopc || format == Format::vop3 ||
         format == Format::vop3sd || format == Format::vop3p;
}

// These count or select among all lanes of a wave; tests of their own are below.
[[nodiscard]] bool depends_on_size(const Instruction& in) {
  return in.opcode->mnemonic == "v_readlane_b32" || in.opcode->mnemonic == "v_writelane_b32" ||
         (in.variant == Variant::dpp && (in.dpp.control & 0x1F0) == 0x130);
}
[[nodiscard]] bool reads_exec(const Instruction& in) {
  return std::ranges::any_of(in.src, [](const Operand& source) {
    return source.kind == OperandKind::sgpr && source.index + source.dwords > k_exec;
  });
}

[[nodiscard]] bool decode_word(std::array<std::uint32_t, 4> words, Instruction& in) {
  in = Instruction{};
  if (decode(Target::gfx90a, words, in) != DecodeStatus::ok) return false;
  return in.vgpr_end <= k_registers && in.agpr_end <= k_registers;
}

class Sweep {
 public:
  explicit Sweep(unsigned seed) : m_random(seed) {}
  void run() {
    unsigned missed = 0;
    for (const Opcode& opcode : opcodes(Target::gfx90a)) {
      if (!is_vector(opcode.format) || !HandlerTable::instance(32).has(opcode.mnemonic)) continue;
      bool ran = false;
      for (int i = 0; i < k_tries; ++i) ran |= one(opcode);
      if (ran) continue;
      ++missed;
      std::printf("not executed: %s\n", opcode.mnemonic.data());
    }
    std::printf("%zu mnemonics executed, %u not\n", m_seen.size(), missed);
    require(m_seen.size() > 400 && missed == 2, "all but the two in depends_on_size() should be executed");
  }

 private:
  [[nodiscard]] std::uint32_t number() { return static_cast<std::uint32_t>(m_random()); }
  [[nodiscard]] std::uint32_t vector() { return 256 + number() % (k_registers / 2) * 2; }

  [[nodiscard]] Registers random_registers() {
    Registers registers;
    for (auto* file : {&registers.vgpr, &registers.agpr}) {
      for (Row& row : *file) {
        const unsigned kind = number() % 3;  // noise, floats around 1, small integers
        for (std::uint32_t& lane : row.lane) {
          lane = kind == 0 ? number() : kind == 1 ? 0x3F000000U + number() % 0x1000000U : number() % 64;
        }
      }
    }
    for (std::uint32_t& value : registers.sgpr) value = number();
    if (number() % 2 == 0) registers.sgpr[k_exec] = ~0U;
    registers.sgpr[124] = number() % 4;  // M0
    return registers;
  }

  bool one(const Opcode& opcode) {
    const auto& encoding = encoding_of(opcode.format);
    std::array<std::uint32_t, 4> words = {number(), number(), number(), number()};
    if (opcode.format >= Format::vop3) {
      words[0] &= 0xFFFF801F;
      words[1] = vector() | vector() << 9 | (number() % 2 == 0 ? vector() << 18 : number() % 104 << 18);
    } else {
      const std::uint32_t first = number() % 3 == 0 ? number() % 512 : vector();
      words[0] = number() % k_registers << 17 | number() % k_registers << 9 | first;
      words[1] = (words[1] & 0xFFFFFF00) | number() % k_registers;
    }
    words[0] = encoding.base | std::uint32_t{opcode.number} << encoding.shift | (words[0] & encoding.operands);
    Instruction in;
    if (!decode_word(words, in) || in.opcode->mnemonic != opcode.mnemonic || depends_on_size(in)) return false;
    const Registers before = random_registers();
    Registers narrow = before, wide = before;
    wide.sgpr[k_exec + 1] = 0;  // the same 32 lanes; for waves of 32 these bits mean nothing
    if (reads_exec(in)) narrow.sgpr[k_exec + 1] = 0;
    const std::uint32_t mode = number() % 2 == 0 ? k_mode_default_float : number() & 0x3FF;
    const bool has_wide = m_wide.run(in, mode, wide), has_narrow = m_narrow.run(in, mode, narrow);
    require(has_wide == has_narrow, "one size of wave lacks a form of it", opcode.mnemonic);
    if (!has_wide) return false;
    const bool same = same_rows(in, narrow.vgpr, wide.vgpr) && same_rows(in, narrow.agpr, wide.agpr);
    require(same, "a vector register differs", opcode.mnemonic);
    require(same_scalars(in, before, narrow, wide), "a scalar register differs", opcode.mnemonic);
    m_seen.insert(opcode.mnemonic);
    return true;
  }

  std::mt19937 m_random;
  Runner m_wide{64}, m_narrow{32};
  std::set<std::string_view> m_seen;
};

// Lane i of v1 holds i + 1; the instruction's result is left in `registers`.
[[nodiscard]] Registers run_narrow(std::array<std::uint32_t, 4> words) {
  Registers registers{};
  for (unsigned i = 0; i < k_max_lanes; ++i) registers.vgpr[1].lane[i] = i + 1;
  registers.sgpr[0] = 33;
  registers.sgpr[k_exec] = registers.sgpr[k_exec + 1] = ~0U;
  Instruction in;
  require(decode_word(words, in), "an instruction does not decode");
  require(Runner{32}.run(in, k_mode_default_float, registers), "an instruction has no handler");
  return registers;
}

void lane_numbers_wrap_at_32() {
  require(run_narrow({0xD2890005, 0x00000101}).sgpr[5] == 2, "v_readlane_b32 s5, v1, s0");
  const Registers written = run_narrow({0xD28A0002, 0x00000085});  // v_writelane_b32 v2, 5, s0
  require(written.vgpr[2].lane[1] == 5 && written.vgpr[2].lane[33] == 0, "v_writelane_b32 v2, 5, s0");
  const Registers rotated = run_narrow({0x7E0402FA, 0xFF013401});  // v_mov_b32_dpp v2, v1 wave_rol:1
  require(rotated.vgpr[2].lane[0] == 2 && rotated.vgpr[2].lane[31] == 1 && rotated.vgpr[2].lane[32] == 0, "wave_rol:1");
  const Registers shifted = run_narrow({0x7E0402FA, 0xFF013001});  // v_mov_b32_dpp v2, v1 wave_shl:1
  require(shifted.vgpr[2].lane[30] == 32 && shifted.vgpr[2].lane[31] == 0, "wave_shl:1");
}

// 5 x 14 work-items: two whole waves and one of six, whose lanes have ids within the work-group.
void work_groups_are_divided_into_waves_of_32() {
  constexpr std::uint64_t k_base = 0x10000, k_bytes_per_wave = 32 * 48;
  const AddressSpace space;  // in which nothing is mapped
  LaunchPlan plan;
  plan.dispatch.space = &space;
  plan.dispatch.target = Target::gfx1100;
  static_assert(traits(Target::gfx1100).lanes == 32);
  plan.dispatch.group[0] = 5, plan.dispatch.group[1] = 14;
  plan.dispatch.grid[0] = 5, plan.dispatch.grid[1] = 14, plan.dispatch.grid[2] = 1;
  plan.dispatch.private_segment_size_bytes = 40;
  plan.dispatch.scratch = std::make_shared<ScratchSlots>(k_base, k_bytes_per_wave, 8);
  plan.groups[0] = plan.groups[1] = plan.groups[2] = 1;
  plan.kernel.vgprs = 8, plan.kernel.sgprs = 32;
  WorkerState worker;
  WorkGroup group;
  require(group.reserve_scratch(plan), "no scratch memory for three waves");
  group.start(plan, 0, worker);
  require(group.waves.size() == 3, "70 work-items make three waves");
  const std::uint64_t masks[] = {0xFFFFFFFF, 0xFFFFFFFF, 0x3F};
  for (std::uint32_t w = 0; w < group.waves.size(); ++w) {
    const WaveContext& wave = group.waves[w];
    require(wave.lanes == 32 && wave.exec() == masks[w], "EXEC of a wave that starts");
    require(wave.scratch_base == k_base + w * k_bytes_per_wave, "where the scratch memory of a wave begins");
    require(wave.scratch_size_bytes_per_lane == 48, "scratch memory of a lane");
    for (std::uint32_t lane = 0; lane < k_max_lanes; ++lane) {
      const std::uint32_t item = w * 32 + lane;
      const std::uint32_t id = lane < 32 && item < 70 ? item % 5 | item / 5 << 10 : 0;
      require(wave.vgpr[0].lane[lane] == id, "work-item ids of a wave that starts");
    }
  }
}

}  // namespace

// usage: wave32_test [SEED]
int main(int argc, char** argv) {
  require(!HandlerTable::instance(32).has("v_mfma_f32_32x32x8f16"), "matrix layouts are those of 64 lanes");
  Sweep(argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 1).run();
  lane_numbers_wrap_at_32();
  work_groups_are_divided_into_waves_of_32();
  return g_failures != 0;
}
