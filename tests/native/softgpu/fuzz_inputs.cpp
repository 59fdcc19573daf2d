// Hostile input for everything that reads bytes which the program, or whoever gave it a file, has written: machine code,
// kernel descriptors, loaded code objects, AQL and SDMA rings. Compiled with sanitizers; the interpreter is not part of it.
// Whatever comes, each answers, within its bounds, and a ring never works for ever.
//
// usage: fuzz_inputs [SEED [SECONDS]]; without SECONDS a fixed number of rounds.
#include <elf.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "device/queue_harness.hpp"
#include "softgpu/device/code_object_check.hpp"
#include "softgpu/device/kernel_name.hpp"
#include "softgpu/device/refusals.hpp"
#include "softgpu/device/report.hpp"
#include "softgpu/exec/kernel_descriptor.hpp"
#include "softgpu/exec/launch_plan.hpp"
#include "softgpu/isa/decoder.hpp"
#include "softgpu/isa/tables.hpp"
#include "softgpu/memory/host_guard.hpp"

// Each refusal is reported: thousands of lines that nobody reads. What is traced is put into words all the same.
namespace kerncap::softgpu {
void report(const char*, ...) noexcept {}
void tell_refusal(const std::string&) noexcept {}
void trace(const char*, ...) noexcept {}
bool is_tracing() noexcept { return true; }
}  // namespace kerncap::softgpu

namespace {

using namespace kerncap::softgpu;
using namespace kerncap::softgpu::test;

class Source {
 public:
  explicit Source(std::uint32_t seed) : m_engine(seed) {}
  [[nodiscard]] std::uint32_t operator()() { return static_cast<std::uint32_t>(m_engine()); }

 private:
  std::mt19937 m_engine;
};

void require(bool condition, const char* what, std::uint64_t first = 0, std::uint64_t second = 0) {
  if (condition) return;
  std::fprintf(stderr, "fuzz_inputs: %s: %llx %llx\n", what, static_cast<unsigned long long>(first),
               static_cast<unsigned long long>(second));
  std::abort();
}

[[nodiscard]] bool is_within_bounds(const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::sgpr: return operand.index + operand.dwords <= 128;
    case OperandKind::vgpr:
    case OperandKind::agpr: return operand.index < 256 && operand.dwords <= 32;
    default: return true;
  }
}

void fuzz_decoder(Target target, Source& random) {
  const std::span<const Opcode> rows = opcodes(target);
  for (int i = 0; i < 20'000; ++i) {
    std::uint32_t words[4];
    for (std::uint32_t& word : words) word = random();
    if (i % 3 == 0) words[1] &= random();
    // On the heap and of exactly this size, so that a read beyond it is seen.
    const std::vector<std::uint32_t> code(words, words + (i % 5 == 0 ? random() % 4 : 4));
    Decoded out;
    if (decode(target, code, out) != DecodeStatus::ok) continue;
    require(out.size_bytes >= 4 && out.size_bytes <= 4 * code.size(), "length", words[0], words[1]);
    require(out.opcode >= rows.data() && out.opcode < rows.data() + rows.size(), "opcode", words[0], words[1]);
    for (const Operand* operand : {&out.dst, &out.sdst, &out.src[0], &out.src[1], &out.src[2], &out.src[3]}) {
      require(is_within_bounds(*operand), "operand", words[0], words[1]);
    }
  }
}

void fuzz_descriptors(Target target, Source& random) {
  for (int i = 0; i < 20'000; ++i) {
    std::array<std::byte, k_descriptor_bytes> bytes{};
    for (unsigned k = 1 + random() % 64; k != 0; --k) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto parsed = KernelDescriptor::parse(target, bytes);
    if (!parsed) continue;
    const KernelDescriptor& d = parsed.value();
    require(d.vgprs > 0 && d.vgprs <= 256 && d.vgprs + d.agprs <= 512 && d.sgprs <= 112, "registers", d.vgprs, d.sgprs);
    require(d.user_sgprs <= 16 && d.initial_sgprs(target) <= d.sgprs, "SGPRs at the start", d.user_sgprs, d.sgprs);
  }
}

// Whole launches: a descriptor somewhere in memory, arguments anywhere, sizes of all kinds.
void fuzz_launches(Target target, Source& random) {
  const Memory memory;
  AddressSpace space;
  space.map({memory.va(), memory.va(k_memory_bytes), 0, Rights::all});
  for (int i = 0; i < 4'000; ++i) {
    std::memset(memory.at(k_data_at), 0, 64);
    for (unsigned k = random() % 8; k != 0; --k) *memory.at<std::uint8_t>(k_data_at + random() % 64) = static_cast<std::uint8_t>(random());
    Dispatch dispatch;
    dispatch.target = target;
    dispatch.space = &space;
    dispatch.descriptor_va = random() % 8 == 0 ? memory.va(k_memory_bytes - random() % 128) : memory.va(k_data_at);
    dispatch.kernarg_va = random() % 2 == 0 ? memory.va(k_memory_bytes - random() % 64) : memory.va(k_data_at + 4096);
    for (unsigned k = 0; k < 3; ++k) {
      dispatch.grid[k] = random() >> random() % 32;
      dispatch.group[k] = static_cast<std::uint16_t>(random() % 40);
    }
    dispatch.group_segment_size_bytes = random() >> random() % 32;
    if (random() % 4 == 0) dispatch.private_segment_size_bytes = random() >> random() % 32;
    if (random() % 4 == 0) dispatch.scratch = std::make_shared<ScratchSlots>(memory.va(k_data_at), random() % 8192, random() % 64);
    const auto plan = LaunchPlan::make(std::move(dispatch));
    if (plan) require(plan.value().group_count > 0 && plan.value().entry_pc % 256 == 0, "launch", plan.value().entry_pc);
    else require(!plan.error().message.empty(), "a refusal without a reason");
  }
}

// An image as ROCr's loader leaves it, damaged.
void fuzz_code_objects(Source& random) {
  const Memory memory;
  AddressSpace space;
  space.map({memory.va(), memory.va(k_memory_bytes), 0, Rights::all});
  std::byte* image = memory.at(k_data_at);
  for (int i = 0; i < 300; ++i) {
    std::memset(image, 0, 16384);
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_machine = 224;
    header.e_phoff = sizeof header;
    header.e_phnum = 2;
    Elf64_Phdr segments[2]{};
    segments[1].p_type = PT_DYNAMIC;
    segments[1].p_vaddr = 1024;
    segments[1].p_memsz = 4 * sizeof(Elf64_Dyn);
    const Elf64_Dyn dynamic[4] = {{DT_SYMTAB, {2048}}, {DT_STRTAB, {4096}}, {DT_STRSZ, {64}}, {DT_NULL, {0}}};
    Elf64_Sym symbols[3]{};
    symbols[1].st_name = 1;
    symbols[1].st_value = 8192;
    std::memcpy(image, &header, sizeof header);
    std::memcpy(image + sizeof header, segments, sizeof segments);
    std::memcpy(image + 1024, dynamic, sizeof dynamic);
    std::memcpy(image + 2048, symbols, sizeof symbols);
    std::memcpy(image + 4096, "\0_Z5scalePi.kd\0", 15);
    if (i == 0) require(kernel_symbol(space, memory.va(k_data_at + 8192)) == "_Z5scalePi", "the whole image");
    for (unsigned k = 1 + random() % 6; k != 0; --k) {
      const std::size_t places[] = {random() % 64, 64 + random() % 112, 1024 + random() % 64, 2048 + random() % 72, 4096 + random() % 64};
      image[places[random() % 5]] = static_cast<std::byte>(random() % 3 == 0 ? 0xFF : random());
    }
    const std::string name = kernel_name(space, memory.va(k_data_at + 8192) + (random() % 4 == 0 ? random() : 0));
    require(!name.empty(), "a kernel without a name");
  }
}

// A code object file, cut off or damaged: the check reads nothing beyond its end, whatever the file says of itself.
void fuzz_code_object_check(Source& random) {
  std::vector<std::byte> whole(4096);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_type = ET_DYN;
  header.e_machine = 224;
  header.e_phoff = 64;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  header.e_shoff = 3000;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 5;
  header.e_shstrndx = 1;
  Elf64_Phdr segments[2]{};
  segments[0] = {PT_LOAD, PF_R, 0, 0, 0, 2000, 4096, 4096};
  segments[1] = {PT_NOTE, PF_R, 1000, 1000, 1000, 64, 64, 4};
  Elf64_Shdr sections[5]{};
  sections[1] = {1, SHT_STRTAB, 0, 0, 500, 100, 0, 0, 1, 0};
  sections[2] = {1, SHT_DYNSYM, 0, 0, 600, 3 * sizeof(Elf64_Sym), 1, 0, 8, sizeof(Elf64_Sym)};
  sections[3] = {1, SHT_NOTE, SHF_ALLOC, 1000, 1000, 64, 0, 0, 4, 0};
  sections[4] = {1, SHT_NOBITS, SHF_ALLOC, 3000, 3000, 1000, 0, 0, 4, 0};
  const Elf64_Nhdr note{4, 20, 32};
  const auto write = [&](std::size_t at, const void* data, std::size_t size) { std::memcpy(&whole[at], data, size); };
  write(0, &header, sizeof header);
  write(64, segments, sizeof segments);
  write(1000, &note, sizeof note);
  write(3000, sections, sizeof sections);
  require(damage_of_code_object(whole).empty(), "the whole file is refused");
  for (std::size_t size = 4; size < 3000 + sizeof sections; ++size) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    require(!damage_of_code_object(cut).empty(), "a file that was cut off is taken", size);
  }
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::byte> damaged(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(3000 + sizeof sections + random() % 8));
    for (unsigned k = 1 + random() % 4; k != 0; --k) {
      const std::size_t places[] = {random() % 64, 64 + random() % 112, 600 + random() % 72, 1000 + random() % 64, 3000 + random() % 320};
      damaged[places[random() % 5]] = static_cast<std::byte>(random() % 3 == 0 ? 0xFF : random());
    }
    static_cast<void>(damage_of_code_object(damaged));
  }
}

[[nodiscard]] std::uint64_t any_address(const Device& device, Source& random) {
  switch (random() % 6) {
    case 0: return random() | std::uint64_t{random()} << 32;
    case 1: return device.memory.va(k_memory_bytes - random() % 64);
    case 2: return 0;
    case 3: return device.memory.va(k_ring_at + random() % k_ring_bytes);
    default: return device.memory.va(k_data_at + random() % 4096 / 8 * 8);
  }
}

void fuzz_aql_ring(Target target, Source& random) {
  for (int round = 0; round < 60; ++round) {
    AqlTester t(target);
    for (unsigned i = 0; i < 8; ++i) t.signal(i).value = static_cast<std::int64_t>(random() % 3);
    for (int i = 0; i < 200; ++i) {
      aql::Packet packet{};
      auto* words = reinterpret_cast<std::uint32_t*>(&packet);
      for (unsigned k = 0; k < 16; ++k) words[k] = random() >> random() % 32;
      constexpr std::uint16_t k_types[] = {0, 0, 1, 2, 2, 2, 3, 3, 5};
      packet.header = random() % 12 == 0 ? static_cast<std::uint16_t>(random())
                                         : static_cast<std::uint16_t>(k_types[random() % 9] | (random() % 3 == 0 ? 256 : 0));
      packet.dispatch.completion_signal = random() % 8 == 0 ? any_address(t, random) : t.signal_va(random() % 8);
      if ((packet.header & 0xFF) == 2) {
        packet.dispatch.setup = static_cast<std::uint16_t>(random() % 4);
        for (auto& size : packet.dispatch.workgroup_size) size = static_cast<std::uint16_t>(random() % 16);
        if (random() % 4 != 0) packet.dispatch.private_segment_size = 0;
        if (random() % 4 != 0) packet.dispatch.group_segment_size %= 65536;
        packet.dispatch.kernel_object = any_address(t, random);
      } else if ((packet.header & 0xFF) == 0) {
        packet.barrier_value.format = static_cast<std::uint8_t>(random() % 4);
        if (packet.barrier_value.format == 1) {
          const std::uint64_t buffer = any_address(t, random);
          packet.pm4.jump[0] = 3U << 30 | 0x3FU << 8;
          packet.pm4.jump[1] = static_cast<std::uint32_t>(buffer);
          packet.pm4.jump[2] = static_cast<std::uint32_t>(buffer >> 32);
          packet.pm4.jump[3] = static_cast<std::uint32_t>(random() % 64);
        } else {
          packet.barrier_value.signal = any_address(t, random);
          packet.barrier_value.condition %= 5;
        }
      } else {
        for (auto& dependency : packet.barrier.dep_signal) dependency = random() % 2 == 0 ? 0 : t.signal_va(random() % 8);
      }
      t.put(packet);
      if (random() % 16 == 0) t.ring(random());  // a doorbell of nonsense
      static_cast<void>(t.step());
      // The program writes over packets that are in flight, over its own queue, and lets signals go.
      if (random() % 4 == 0) *t.memory.at<std::uint32_t>(k_ring_at + random() % (k_ring_bytes / 4) * 4) = random();
      if (random() % 64 == 0) *t.memory.at<std::uint32_t>(k_queue_at + random() % 64 * 4) = random();
      if (random() % 2 == 0) t.signal(random() % 16).value = 0;
      while (!submitted().empty() && random() % 3 != 0) {
        DispatchOutcome outcome;
        if (random() % 8 == 0) outcome.fault.kind = static_cast<FaultKind>(1 + random() % 10);
        end(random() % submitted().size(), outcome);
      }
      static_cast<void>(t.step());
      require(submitted().size() <= 16, "more kernels in flight than may be", submitted().size());
    }
    t.queue->stop();
    require(submitted().empty(), "a kernel of a queue that is gone");
  }
}

void fuzz_sdma_ring(Source& random) {
  for (int round = 0; round < 150; ++round) {
    SdmaTester t;
    for (int i = 0; i < 40; ++i) {
      constexpr std::uint32_t k_opcodes[] = {0, 1, 1, 1, 5, 6, 8, 10, 11, 13, 17};
      const std::uint32_t opcode = random() % 8 == 0 ? random() & 0xFF : k_opcodes[random() % 11];
      std::uint32_t words[13];
      for (std::uint32_t& word : words) word = random() >> random() % 32;
      words[0] = opcode | (random() % 2 == 0 ? 0 : (random() & 0xFFFFFF00U));
      if (opcode == 1) words[0] = 1U | (random() % 2 == 0 ? 4U << 8 : 0U) | (random() & 7) << 29;
      for (const unsigned at : {1U, 3U, 5U, 6U}) {
        if (random() % 3 == 0) continue;
        const std::uint64_t address = any_address(t, random);
        words[at] = static_cast<std::uint32_t>(address);
        words[at + 1] = static_cast<std::uint32_t>(address >> 32);
      }
      if (opcode == 1 && random() % 2 == 0) words[1] %= 65536;
      for (const std::uint32_t word : words) t.put({word});
      if (random() % 32 == 0) t.ring(random());
      // Far more than the memory holds cannot be copied, and rows that lie on each other can be, for long.
      for (unsigned k = 0; k < 50 && t.queue->step() == Queue::Progress::worked; ++k) {}
      if (random() % 4 == 0) *t.memory.at<std::uint32_t>(k_ring_at + random() % 1024 * 4) = random();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto seed = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 1U;
  const auto time = std::chrono::seconds(argc > 2 ? std::strtol(argv[2], nullptr, 10) : 0);
  const auto begin = std::chrono::steady_clock::now();
  Source random(seed);
  HostGuard::install();
  unsigned rounds = 0;
  do {
    for (const Target target : {Target::gfx90a, Target::gfx942}) {
      fuzz_decoder(target, random);
      fuzz_descriptors(target, random);
      fuzz_launches(target, random);
      fuzz_aql_ring(target, random);
    }
    fuzz_code_objects(random);
    fuzz_code_object_check(random);
    fuzz_sdma_ring(random);
    ++rounds;
  } while (std::chrono::steady_clock::now() - begin < time);
  std::printf("seed %u: %u rounds, nothing found\n", seed, rounds);
}
