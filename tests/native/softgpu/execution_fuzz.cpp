// Random instructions, executed on one wave whose registers, LDS and memory each end where a page that nobody may touch begins:
// whatever they are, and wherever they point, they end as done or as a fault, and reach nothing beyond. usage: execution_fuzz SEED
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "encodings.hpp"
#include "softgpu/exec/code_cache.hpp"
#include "softgpu/exec/global_wave_sync.hpp"
#include "softgpu/exec/handler_table.hpp"
#include "softgpu/exec/work_group.hpp"
#include "softgpu/isa/decoder.hpp"

namespace {

using namespace kerncap::softgpu;
using kerncap::softgpu::testing::Encoding, kerncap::softgpu::testing::encoding_of;

constexpr std::size_t k_page_bytes = 4096;
constexpr unsigned k_registers = 48;  // of 256 that an instruction can name
constexpr std::size_t k_lds_bytes = 1024, k_memory_bytes = 8 * k_page_bytes, k_scratch_bytes_per_lane = 64;
constexpr std::size_t k_scratch_bytes = k_scratch_bytes_per_lane * k_max_lanes;
constexpr int k_tries = 400'000;

// Bytes between two pages that fault; they end at the second one.
class Fenced {
 public:
  explicit Fenced(std::size_t size_bytes) {
    const std::size_t pages = (size_bytes + k_page_bytes - 1) / k_page_bytes * k_page_bytes;
    auto* all = static_cast<std::byte*>(
        mmap(nullptr, pages + 2 * k_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(all + k_page_bytes, pages, PROT_READ | PROT_WRITE);
    m_begin = all + k_page_bytes + pages - size_bytes;
  }
  [[nodiscard]] std::byte* data() const noexcept { return m_begin; }
  [[nodiscard]] std::uint64_t va() const noexcept { return reinterpret_cast<std::uint64_t>(m_begin); }

 private:
  std::byte* m_begin;  // never given back: the process ends soon
};

class Fuzzer {
 public:
  Fuzzer(Target target, unsigned seed)
      : m_target(target), m_random(seed), m_vgprs(k_registers * sizeof(Row)), m_agprs(k_registers * sizeof(Row)), m_lds(k_lds_bytes),
        m_memory(k_memory_bytes), m_read_only(k_page_bytes), m_scratch(k_scratch_bytes), m_code(target) {
    m_space.map({m_memory.va(), m_memory.va() + k_memory_bytes, 0, Rights::read | Rights::write});
    m_space.map({m_read_only.va(), m_read_only.va() + k_page_bytes, 0, Rights::read});
    m_space.map({m_scratch.va(), m_scratch.va() + k_scratch_bytes, 0, Rights::read | Rights::write});
    m_worker.code = &m_code;
    m_group.sync = &m_sync;
    m_group.interrupt = &m_interrupt;
    m_wave.group = &m_group;
    m_wave.worker = &m_worker;
    m_wave.target = target;
    m_wave.lanes = traits(target).lanes;
    m_wave.vgpr = reinterpret_cast<Row*>(m_vgprs.data());
    m_wave.agpr = reinterpret_cast<Row*>(m_agprs.data());
    m_wave.vgpr_count = m_wave.agpr_count = k_registers;
    m_wave.sgpr_count = 102;
    m_wave.lds = m_lds.data();
    m_wave.lds_size_bytes = k_lds_bytes;
    m_wave.shared_base = std::uint64_t{1} << 48;
    m_wave.private_base = std::uint64_t{2} << 48;
    m_wave.scratch_base = m_scratch.va();
    m_wave.scratch_size_bytes_per_lane = k_scratch_bytes_per_lane;
  }

  void run() {
    for (int i = 0; i < k_tries; ++i) {
      if (i % 64 == 0) refill();
      one();
    }
    std::set<std::string_view> missed;
    const HandlerTable& handlers = HandlerTable::instance(traits(m_target).lanes);
    for (const Opcode& opcode : opcodes(m_target)) {
      if (handlers.has(opcode.mnemonic) && !m_seen.contains(opcode.mnemonic)) missed.insert(opcode.mnemonic);
    }
    std::printf("%s: %zu mnemonics executed, %zu not; %llu instructions done, %llu faults\n", name(m_target).data(), m_seen.size(),
                missed.size(), static_cast<unsigned long long>(m_done), static_cast<unsigned long long>(m_faults));
    for (const std::string_view mnemonic : missed) std::printf("not executed: %s\n", mnemonic.data());
    // When random words do not reach nearly all of them, and mostly in vain, the test has lost its meaning.
    if (missed.size() * 20 > m_seen.size() || m_done < m_faults) std::exit(1);
  }

 private:
  [[nodiscard]] std::uint32_t number() { return static_cast<std::uint32_t>(m_random()); }

  // The source code of a vector register; even, as pairs have to be.
  [[nodiscard]] std::uint32_t vector() { return 256 + number() % (k_registers / 2) * 2; }

  [[nodiscard]] std::uint64_t address() {
    const std::uint64_t bases[] = {m_memory.va(), m_memory.va() + k_memory_bytes - 64, m_read_only.va(), m_read_only.va() + k_page_bytes - 16,
                                   m_wave.shared_base, m_wave.private_base, 0, m_vgprs.va()};
    return bases[number() % 8] + number() % 80;
  }

  void refill() {
    for (Row* file : {m_wave.vgpr, m_wave.agpr}) {
      for (unsigned r = 0; r < k_registers; r += 2) {
        const unsigned kind = number() % 4;
        const std::uint64_t base = address();
        for (unsigned lane = 0; lane < k_max_lanes; ++lane) {
          // Addresses, small offsets, equal ones, noise.
          const std::uint64_t value = kind == 0   ? base + number() % 64 * 4
                                      : kind == 1 ? std::uint64_t{number() % 1100} << 32 | (number() % 1100)
                                      : kind == 2 ? base
                                                  : std::uint64_t{number()} << 32 | number();
          file[r].lane[lane] = static_cast<std::uint32_t>(value);
          file[r + 1].lane[lane] = static_cast<std::uint32_t>(value >> 32);
        }
      }
    }
    for (unsigned r = 0; r < 128; r += 2) m_wave.set_sgpr64(r, number() % 2 == 0 ? address() : std::uint64_t{number()} << 32 | number());
    // Buffer descriptors: base, stride and size, format.
    for (unsigned r = 0; r < 100; r += 4) {
      if (number() % 2 == 0) continue;
      const std::uint64_t base = m_memory.va() + number() % 64;
      m_wave.set_sgpr64(r, base | std::uint64_t{number() % 40} << 48 | (number() % 4 == 0 ? std::uint64_t{1} << 63 : 0));
      m_wave.sgpr[r + 2] = number() % 3 == 0 ? number() : number() % (2 * k_memory_bytes);
      m_wave.sgpr[r + 3] = number() >> number() % 32;
    }
    m_wave.set_exec(number() % 4 == 0 ? all_lanes_of(k_max_lanes) : std::uint64_t{number()} << 32 | number());
    m_wave.sgpr[124] = number() % 3 == 0 ? number() : number() % 2048;
    m_wave.set_mode(number() % 2 == 0 ? k_mode_default_float : number() & 0x3FF);
  }

  void one() {
    const std::span<const Opcode> rows = opcodes(m_target);
    const Opcode& opcode = rows[number() % rows.size()];
    const Encoding& encoding = encoding_of(opcode.format);
    std::uint32_t words[4] = {number(), number(), number(), number()};
    // Few modifiers and small register numbers: more of what a compiler would write.
    if (number() % 2 == 0) words[0] &= number() & number();
    if (number() % 2 == 0) words[1] &= 0x1F1F1F1F;
    if (number() % 4 == 0) words[1] &= number();
    if (opcode.format >= Format::vop3 && opcode.format <= Format::mfma && number() % 2 == 0) {
      // Sources: vector registers, all three or the first two.
      words[0] &= 0xFFFF801F;
      words[1] = vector() | vector() << 9 | (number() % 2 == 0 ? vector() << 18 : number() % 128 << 18);
    }
    words[0] = encoding.base | static_cast<std::uint32_t>(opcode.number) << encoding.shift | (words[0] & encoding.operands);
    Instruction instruction;
    if (decode(m_target, words, instruction) != DecodeStatus::ok) return;
    if (instruction.vgpr_end > k_registers || instruction.agpr_end > k_registers) return;  // refused by the interpreter's loop
    for (unsigned i = 0; i < 4; ++i) {
      const Operand& operand = instruction.src[i];
      if (operand.kind != OperandKind::constant) continue;
      std::fill_n(m_constants[i][0].lane, k_max_lanes, static_cast<std::uint32_t>(operand.value));
      std::fill_n(m_constants[i][1].lane, k_max_lanes, static_cast<std::uint32_t>(operand.value >> 32));
      instruction.constant_row[i] = m_constants[i];
    }
    instruction.handler = HandlerTable::instance(traits(m_target).lanes).bind(m_target, instruction);
    if (instruction.handler == nullptr) return;
    m_seen.insert(instruction.opcode->mnemonic);
    const AddressSpace::View view(m_space);
    m_worker.memory.begin_slice(m_space, view);
    m_wave.fault = Fault{};
    const Flow flow = instruction.handler(m_wave, instruction);
    m_worker.memory.end_slice();
    ++(flow == Flow::fault ? m_faults : m_done);
    if ((flow == Flow::fault) != static_cast<bool>(m_wave.fault)) {
      std::fprintf(stderr, "execution_fuzz: %s %08x %08x: a fault without a reason\n", instruction.opcode->mnemonic.data(), words[0], words[1]);
      std::exit(1);
    }
  }

  Target m_target;
  std::mt19937 m_random;
  Fenced m_vgprs, m_agprs, m_lds, m_memory, m_read_only, m_scratch;
  AddressSpace m_space;
  CodeCache m_code;
  GlobalWaveSync m_sync;
  std::function<void(std::uint32_t)> m_interrupt = [](std::uint32_t) {};
  WorkGroup m_group;
  WorkerState m_worker;
  WaveContext m_wave;
  Row m_constants[4][2];
  std::set<std::string_view> m_seen;
  std::uint64_t m_done = 0, m_faults = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const unsigned seed = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 1;
  for (const Target target : {Target::gfx90a, Target::gfx942}) std::make_unique<Fuzzer>(target, seed)->run();
}
