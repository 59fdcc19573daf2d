#include "machine.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <span>

namespace kerncap::softgpu::test {

namespace {

int g_failures = 0;

void map(AddressSpace& space, std::uint64_t va, std::vector<std::uint8_t>& bytes, Rights rights) {
  space.map({va, va + bytes.size(), reinterpret_cast<std::uint64_t>(bytes.data()) - va, rights});
}

// A range for each byte would be too many ranges.
constexpr std::uint64_t k_watched_bytes = 64;

// How many of these bytes lie in each watched range, each once.
std::vector<std::uint64_t> count(std::vector<std::uint64_t> bytes, std::size_t ranges) {
  std::ranges::sort(bytes);
  std::vector<std::uint64_t> counts(ranges);
  for (auto at = bytes.begin(), end = std::unique(bytes.begin(), bytes.end()); at != end; ++at) {
    const bool is_scratch = *at >= k_scratch_va;
    ++counts[is_scratch ? (k_memory_bytes + *at - k_scratch_va) / k_watched_bytes : (*at - k_memory_va) / k_watched_bytes];
  }
  return counts;
}

}  // namespace

Machine::Machine(Target target_, unsigned seed) : target(target_), m_random(seed) {
  for (unsigned i = 0; i < k_extents; ++i) {
    m_extent[i].resize(k_extent_bytes);
    map(m_space, k_memory_va + std::uint64_t{i} * k_extent_bytes, m_extent[i], Rights::read | Rights::write);
  }
  m_write_watch = {[](void* self, std::uint64_t begin, std::uint64_t end) { static_cast<Machine*>(self)->note_told(begin, end); }, this};
  m_read_only.assign(k_read_only_bytes, 0x5A);
  map(m_space, k_read_only_va, m_read_only, Rights::read);
  m_scratch.resize(k_scratch_bytes_per_lane * k_lanes);
  map(m_space, k_scratch_va, m_scratch, Rights::read | Rights::write);
  const auto watch = [&](std::uint64_t begin, std::uint64_t end) {
    for (; begin < end; begin += k_watched_bytes) m_watched.push_back({begin, begin + k_watched_bytes});
  };
  watch(k_memory_va, k_memory_va + k_memory_bytes);
  watch(k_scratch_va, k_scratch_va + m_scratch.size());
  m_lds.resize(k_lds_bytes);
  m_vgpr.resize(k_registers);
  m_agpr.resize(k_registers);
  wave.vgpr = m_vgpr.data();
  wave.agpr = m_agpr.data();
  wave.vgpr_count = wave.agpr_count = k_registers;
  wave.sgpr_count = 102;
  wave.target = target;
  wave.lanes = k_lanes;
  wave.set_mode(k_mode_default_float);
  wave.worker = m_worker.get();
  wave.lds = reinterpret_cast<std::byte*>(m_lds.data());
  wave.lds_size_bytes = k_lds_bytes;
  wave.shared_base = std::uint64_t{1} << 48;
  wave.private_base = std::uint64_t{2} << 48;
  wave.scratch_base = k_scratch_va;
  wave.scratch_size_bytes_per_lane = k_scratch_bytes_per_lane;
}

const Opcode* Machine::find(std::string_view mnemonic) const {
  for (const Opcode& opcode : opcodes(target)) {
    if (opcode.mnemonic == mnemonic) return &opcode;
  }
  return nullptr;
}

Code Machine::encode(const Opcode& opcode, const Fields& f) const {
  const auto bit = [](bool value, unsigned at) { return std::uint32_t{value} << at; };
  const std::uint32_t number = opcode.number;
  switch (opcode.format) {
    case Format::ds:
      return {{0xD8000000U | bit(f.acc, 25) | (number << 17) | bit(f.gds, 16) |
                   (static_cast<std::uint32_t>(f.offset1) << 8 | static_cast<std::uint32_t>(f.offset)),
               (f.vdst << 24) | (f.data1 << 16) | (f.data0 << 8) | f.addr}};
    case Format::mubuf:
      return {{0xE0000000U | (number << 18) | bit(f.lds, 16) | bit(f.glc, 14) | bit(f.idxen, 13) | bit(f.offen, 12) |
                   static_cast<std::uint32_t>(f.offset),
               (f.soffset << 24) | bit(f.acc, 23) | (f.srsrc / 4 << 16) | (f.data0 << 8) | f.addr}};
    case Format::mtbuf:
      return {{0xE8000000U | (f.nfmt << 23) | (f.dfmt << 19) | (number << 15) | bit(f.glc, 14) | bit(f.idxen, 13) |
                   bit(f.offen, 12) | static_cast<std::uint32_t>(f.offset),
               (f.soffset << 24) | bit(f.acc, 23) | (f.srsrc / 4 << 16) | (f.data0 << 8) | f.addr}};
    default: {
      const unsigned segment = opcode.format == Format::flat ? 0 : opcode.format == Format::scratch ? 1 : 2;
      return {{0xDC000000U | (number << 18) | bit(f.glc, 16) | (segment << 14) | bit(f.lds || f.sve, 13) |
                   (static_cast<std::uint32_t>(f.offset) & 0x1FFF),
               (f.vdst << 24) | bit(f.acc, 23) | (f.saddr << 16) | (f.data0 << 8) | f.addr}};
    }
  }
}

Instruction* Machine::bind(const Code& code) {
  m_instruction = Instruction{};
  m_instruction.pc = 0x1000;
  if (decode(target, code.words, m_instruction) != DecodeStatus::ok) return nullptr;
  for (unsigned i = 0; i < 4; ++i) {
    const Operand& operand = m_instruction.src[i];
    if (operand.kind != OperandKind::constant) continue;
    for (unsigned part = 0; part < 2; ++part) {
      std::fill_n(m_constants[i][part].lane, k_lanes, static_cast<std::uint32_t>(operand.value >> (32 * part)));
    }
    m_instruction.constant_row[i] = m_constants[i].data();
  }
  m_instruction.handler = HandlerTable::instance(k_lanes).bind(target, m_instruction);
  return m_instruction.handler != nullptr ? &m_instruction : nullptr;
}

void Machine::load(const State& state) {
  std::copy_n(state.sgpr.begin(), 128, wave.sgpr.begin());
  if constexpr (k_lanes == 32) wave.sgpr[k_exec + 1] = ~state.sgpr[0];  // means nothing there: any value
  std::ranges::copy(state.vgpr, m_vgpr.begin());
  std::ranges::copy(state.agpr, m_agpr.begin());
  for (unsigned i = 0; i < k_extents; ++i) {
    std::copy_n(state.memory.begin() + i * k_extent_bytes, k_extent_bytes, m_extent[i].begin());
  }
  std::ranges::copy(state.scratch, m_scratch.begin());
  std::ranges::copy(state.lds, m_lds.begin());
  wave.fault = Fault{};
}

void Machine::read_back(State& state) const {
  const std::uint32_t exec_high = state.sgpr[k_exec + 1];
  std::copy_n(wave.sgpr.begin(), 128, state.sgpr.begin());
  if constexpr (k_lanes == 32) state.sgpr[k_exec + 1] = exec_high;
  std::ranges::copy(m_vgpr, state.vgpr.begin());
  std::ranges::copy(m_agpr, state.agpr.begin());
  for (unsigned i = 0; i < k_extents; ++i) {
    std::ranges::copy(m_extent[i], state.memory.begin() + i * k_extent_bytes);
  }
  std::ranges::copy(m_scratch, state.scratch.begin());
  std::ranges::copy(m_lds, state.lds.begin());
}

Fault Machine::run(const Code& code, State& state) {
  const Instruction* instruction = bind(code);
  if (instruction == nullptr) {
    Fault refused;
    refused.kind = FaultKind::unknown_instruction;
    return refused;
  }
  load(state);
  m_told.clear();
  m_is_told = !m_is_told;
  m_space.watch_writes(m_is_told ? &m_write_watch : nullptr);
  const State before = state;
  const AddressSpace::View view(m_space);
  m_record.emplace(m_watched);
  m_worker->memory.begin_slice(m_space, view);
  m_worker->memory.record(&*m_record);
  const Flow flow = instruction->handler(wave, *instruction);
  m_worker->memory.record(nullptr);
  m_worker->memory.end_slice();
  if ((flow == Flow::fault) != (wave.fault.kind != FaultKind::none)) fail("fault and flow disagree");
  read_back(state);
  if (m_is_told) check_told(before);
  return wave.fault;
}

void Machine::note_told(std::uint64_t begin, std::uint64_t end) {
  if (begin < k_memory_va || begin >= k_memory_va + k_memory_bytes) return;
  if (end - begin != k_extent_bytes) fail("no block, or not a whole one, was told");
  const std::vector<std::uint8_t>& extent = m_extent[(begin - k_memory_va) / k_extent_bytes];
  m_told.emplace(begin, extent);
}

void Machine::check_told(const State& before) const {
  for (unsigned i = 0; i < k_extents; ++i) {
    const auto begin = before.memory.begin() + i * k_extent_bytes;
    const auto told = m_told.find(k_memory_va + i * k_extent_bytes);
    if (told == m_told.end()) {
      if (!std::ranges::equal(m_extent[i], std::span(begin, k_extent_bytes))) fail("extent %u changed untold", i);
    } else if (!std::ranges::equal(told->second, std::span(begin, k_extent_bytes))) {
      fail("extent %u had changed before it was told", i);
    }
  }
}

void Machine::check_record(const std::vector<std::uint64_t>& read, const std::vector<std::uint64_t>& written,
                           const char* what) const {
  const std::vector<std::uint64_t> wanted_reads = count(read, m_watched.size()), wanted_writes = count(written, m_watched.size());
  const std::vector<AccessRecord::Count> got = m_record->counts();
  for (std::size_t i = 0; i < m_watched.size(); ++i) {
    if (m_watched[i].begin >= wave.scratch_base && m_watched[i].begin < wave.scratch_base + m_scratch.size()) continue;
    if (got[i].read_bytes == wanted_reads[i] && got[i].written_bytes == wanted_writes[i]) continue;
    return fail("%s: of the 64 bytes at %#llx %llu were recorded as read and %llu as written, not %llu and %llu", what,
                static_cast<unsigned long long>(m_watched[i].begin), static_cast<unsigned long long>(got[i].read_bytes),
                static_cast<unsigned long long>(got[i].written_bytes), static_cast<unsigned long long>(wanted_reads[i]),
                static_cast<unsigned long long>(wanted_writes[i]));
  }
}

State Machine::random_state() {
  State state;
  state.memory.resize(k_memory_bytes);
  state.scratch.resize(k_scratch_bytes_per_lane * k_lanes);
  state.lds.resize(k_lds_bytes);
  for (auto& value : state.sgpr) value = static_cast<std::uint32_t>(m_random());
  for (auto* file : {&state.vgpr, &state.agpr}) {
    for (Row& row : *file) {
      for (auto& value : row.lane) value = static_cast<std::uint32_t>(m_random());
    }
  }
  for (auto* bytes : {&state.memory, &state.scratch, &state.lds}) {
    for (std::size_t i = 0; i < bytes->size(); i += 8) {
      const std::uint64_t value = m_random();
      std::memcpy(bytes->data() + i, &value, 8);
    }
  }
  // gfx90a code holds the address of its scratch memory in flat_scratch.
  std::memcpy(&state.sgpr[k_flat_scratch], &k_scratch_va, 8);
  const std::uint64_t mask = random_mask();
  std::memcpy(&state.sgpr[k_exec], &mask, 8);
  return state;
}

std::uint64_t Machine::random_mask() {
  switch (random(5)) {
    case 0: return m_random() & k_all_lanes;
    case 1: return std::uint64_t{1} << random(k_lanes);
    case 2: return (std::uint64_t{1} << (1 + random(k_lanes - 1))) - 1;
    case 3: return random(4) == 0 ? 0 : m_random() & m_random() & m_random() & k_all_lanes;
    default: return k_all_lanes;
  }
}

void fail(const char* format, ...) {
  if (++g_failures > 20) return;
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::putchar('\n');
}

int failures() {
  if (g_failures != 0) std::printf("%d failures\n", g_failures);
  return g_failures;
}

bool same(const State& got, const State& wanted, const char* what) {
  for (unsigned i = 0; i < k_registers; ++i) {
    for (unsigned lane = 0; lane < k_max_lanes; ++lane) {
      for (const bool acc : {false, true}) {
        const std::uint32_t have = (acc ? got.agpr : got.vgpr)[i].lane[lane];
        const std::uint32_t want = (acc ? wanted.agpr : wanted.vgpr)[i].lane[lane];
        if (have == want) continue;
        fail("%s: %c%u lane %u is %08x, should be %08x", what, acc ? 'a' : 'v', i, lane, have, want);
        return false;
      }
    }
  }
  const auto compare = [&](const char* name, const std::vector<std::uint8_t>& have, const std::vector<std::uint8_t>& want) {
    const auto at = std::ranges::mismatch(have, want).in1 - have.begin();
    if (at == static_cast<std::ptrdiff_t>(have.size())) return true;
    fail("%s: %s byte %#tx is %02x, should be %02x", what, name, at, have[static_cast<std::size_t>(at)], want[static_cast<std::size_t>(at)]);
    return false;
  };
  if (got.sgpr != wanted.sgpr) fail("%s: a scalar register changed", what);
  return compare("memory", got.memory, wanted.memory) && compare("scratch", got.scratch, wanted.scratch) &&
         compare("lds", got.lds, wanted.lds);
}

}  // namespace kerncap::softgpu::test
