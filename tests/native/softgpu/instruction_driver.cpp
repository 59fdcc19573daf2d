// Executes single instructions, or short straight sequences, on one wave, for tests that compare them with an oracle.
// Reads requests from standard input until it ends and answers each one on standard output. All little-endian:
//
//   request  = target mode vgpr_count agpr_count word_count lds_size_bytes memory_size_bytes   7 x u32
//              code                                                                            u32[word_count]
//              sgpr                                                                            u32[128]
//              vgpr agpr                                                                       u32[64] a register
//              lds memory                                                                      bytes
//   response = status detail scc executed                                                      4 x u32
//              sgpr vgpr agpr lds memory                                                       as in the request
//
// sgpr is indexed by operand encoding: VCC is 106, M0 124, EXEC 126. target: 0 gfx90a, 1 gfx942, 2 gfx1100. Memory is
// mapped at k_memory_va. status: 0 done, 1 not decodable (detail: DecodeStatus), 2 no handler, 3 stopped by a fault
// (detail: FaultKind), 4 left the straight line (detail: Flow).
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/wave.hpp"
#include "softgpu/isa/decoder.hpp"
#include "softgpu/memory/address_space.hpp"

namespace {

using namespace kerncap::softgpu;

constexpr std::uint64_t k_memory_va = 0x10000000;
constexpr unsigned k_sgpr_count = 128;
constexpr std::uint32_t k_most_registers = 512, k_most_words = 4096, k_most_bytes = 1U << 26;

struct Header {
  std::uint32_t target, mode, vgpr_count, agpr_count, word_count, lds_size_bytes, memory_size_bytes;
};
struct Answer {
  std::uint32_t status, detail, scc, executed;
};

[[nodiscard]] bool read_all(void* to, std::size_t size_bytes) {
  return size_bytes == 0 || std::fread(to, 1, size_bytes, stdin) == size_bytes;
}
void write_all(const void* from, std::size_t size_bytes) {
  if (size_bytes != 0 && std::fwrite(from, 1, size_bytes, stdout) != size_bytes) std::exit(4);
}

// The instruction at `words`, with the constant rows that an instruction cache would have made.
struct Bound {
  Instruction instruction;
  std::array<std::array<Row, 2>, 4> constants;
};

Answer bind(Target target, std::span<const std::uint32_t> words, Bound& bound) {
  Instruction& instruction = bound.instruction;
  instruction = Instruction{};
  const DecodeStatus decoded = decode(target, words, instruction);
  if (decoded != DecodeStatus::ok) return {1, static_cast<std::uint32_t>(decoded), 0, 0};
  for (unsigned i = 0; i < 4; ++i) {
    const Operand& operand = instruction.src[i];
    if (operand.kind != OperandKind::constant) continue;
    for (unsigned lane = 0; lane < k_max_lanes; ++lane) {
      bound.constants[i][0].lane[lane] = static_cast<std::uint32_t>(operand.value);
      bound.constants[i][1].lane[lane] = static_cast<std::uint32_t>(operand.value >> 32);
    }
    instruction.constant_row[i] = bound.constants[i].data();
  }
  instruction.handler = HandlerTable::instance(traits(target).lanes).bind(target, instruction);
  return {instruction.handler == nullptr ? 2U : 0U, 0, 0, 0};
}

Answer run(Target target, WaveContext& wave, std::span<const std::uint32_t> words) {
  static Bound bound;
  Answer answer{};
  while (!words.empty()) {
    const Answer made = bind(target, words, bound);
    if (made.status != 0) return {made.status, made.detail, wave.scc, answer.executed};
    bound.instruction.pc = wave.pc;
    const Flow flow = bound.instruction.handler(wave, bound.instruction);
    if (flow == Flow::fault) return {3, static_cast<std::uint32_t>(wave.fault.kind), wave.scc, answer.executed};
    ++answer.executed;
    if (flow != Flow::next && flow != Flow::wait && flow != Flow::yield) {
      return {4, static_cast<std::uint32_t>(flow), wave.scc, answer.executed};
    }
    wave.pc += bound.instruction.size_bytes;
    words = words.subspan(bound.instruction.size_bytes / 4);
  }
  answer.scc = wave.scc;
  return answer;
}

bool serve(WorkerState& worker, WaveContext& wave) {
  Header header;
  if (!read_all(&header, sizeof header)) return false;
  if (header.target >= k_target_count || header.vgpr_count > k_most_registers || header.agpr_count > k_most_registers ||
      header.word_count > k_most_words || header.lds_size_bytes > k_most_bytes || header.memory_size_bytes > k_most_bytes) {
    std::fprintf(stderr, "instruction_driver: a request is out of bounds\n");
    std::exit(2);
  }
  const auto target = static_cast<Target>(header.target);
  std::vector<std::uint32_t> words(header.word_count);
  std::vector<Row> vgpr(header.vgpr_count), agpr(header.agpr_count);
  std::vector<std::byte> lds(header.lds_size_bytes), memory(header.memory_size_bytes);
  const bool whole = read_all(words.data(), words.size() * 4) && read_all(wave.sgpr.data(), k_sgpr_count * 4) &&
                     read_all(vgpr.data(), vgpr.size() * sizeof(Row)) &&
                     read_all(agpr.data(), agpr.size() * sizeof(Row)) && read_all(lds.data(), lds.size()) &&
                     read_all(memory.data(), memory.size());
  if (!whole) {
    std::fprintf(stderr, "instruction_driver: the last request is truncated\n");
    std::exit(2);
  }
  AddressSpace space;
  if (!memory.empty()) {
    space.map({k_memory_va, k_memory_va + memory.size(), reinterpret_cast<std::uint64_t>(memory.data()) - k_memory_va, Rights::all});
  }
  const AddressSpace::View view(space);
  worker.memory.begin_slice(space, view);
  wave.vgpr = vgpr.data();
  wave.agpr = agpr.data();
  wave.vgpr_count = static_cast<std::uint16_t>(vgpr.size());
  wave.agpr_count = static_cast<std::uint16_t>(agpr.size());
  wave.sgpr_count = 102;
  wave.target = target;
  wave.lanes = traits(target).lanes;
  wave.scc = false;
  wave.set_mode(header.mode);
  wave.worker = &worker;
  wave.lds = lds.data();
  wave.lds_size_bytes = header.lds_size_bytes;
  wave.pc = 0;
  wave.fault = Fault{};
  const Answer answer = run(target, wave, words);
  worker.memory.end_slice();
  write_all(&answer, sizeof answer);
  write_all(wave.sgpr.data(), k_sgpr_count * 4);
  write_all(vgpr.data(), vgpr.size() * sizeof(Row));
  write_all(agpr.data(), agpr.size() * sizeof(Row));
  write_all(lds.data(), lds.size());
  write_all(memory.data(), memory.size());
  std::fflush(stdout);
  return true;
}

}  // namespace

int main() {
  const auto worker = std::make_unique<WorkerState>();
  const auto wave = std::make_unique<WaveContext>();
  while (serve(*worker, *wave)) {
  }
  return 0;
}
