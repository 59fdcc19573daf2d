// Reads a replay plan. A line that is not understood ends the replay: a plan is never followed in part.
#include "replay/plan.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>

#include "replay/driver.hpp"
#include "replay/plan_line.hpp"

namespace kerncap::replay {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

constexpr std::array<std::string_view, 12> k_kinds = {
    "device_coarse", "device_fine",     "device_extended_fine", "vmem",    "async_pool", "ipc",
    "host_coarse",   "host_pinned",     "host_registered",      "managed", "kernarg",    "code_object"};

class Parser {
 public:
  Parser(Plan& plan, Driver& driver) : m_plan(plan), m_driver(driver) {}

  bool line(std::string_view text) {
    PlanLine words(text);
    const std::string_view what = words.word();
    if (what == "store") m_plan.store = words.path();
    else if (what == "code") code(words);
    else if (what == "linked") linked(words);
    else if (what == "symbol") m_plan.symbol = words.rest();
    else if (what == "variant_symbol") m_plan.variant_symbol = words.rest();
    else if (what == "isa") m_plan.isa = words.rest();
    else if (what == "software") m_plan.software = words.number() != 0;
    else if (what == "device") { const auto from = words.small(); m_plan.devices[from] = words.small(); }
    else if (what == "kernel_device") m_plan.kernel_device = words.small();
    else if (what == "grid") grid(words, m_plan.shape);
    else if (what == "block") block(words, m_plan.shape);
    else if (what == "lds") { (void)words.small(); m_plan.shape.dynamic_lds_bytes = words.small(); }
    else if (what == "variant_shape") variant_shape(words);
    else if (what == "private") m_plan.private_bytes = words.small();
    else if (what == "cooperative") m_plan.cooperative = words.number() != 0;
    else if (what == "kernarg") m_plan.kernarg = words.bytes();
    else if (what == "argument") argument(words);
    else if (what == "variant_kernarg") m_plan.variant_kernarg_bytes = words.small();
    else if (what == "loaded") { m_plan.loaded_address = words.number(); m_plan.loaded_bytes = words.number(); }
    else if (what == "region") region(words);
    else if (what == "written") written(words);
    else if (what == "state") { m_plan.states.emplace_back().guarded = text == "state guarded"; return true; }
    else if (what == "order") order(words);
    else if (what == "guard") { m_plan.guarded = true; return true; }
    else if (what == "open") { const std::uint64_t base = words.number(); m_plan.open.push_back({base, words.number()}); }
    else if (what == "change") change(words);
    else if (what == "variable") variable(words);
    else if (what == "fixed") fixed(words);
    else if (what == "renamed") { const std::string name(words.word()); m_plan.renamed[name] = words.rest(); }
    else if (what == "function") function(words);
    else if (what == "memory") memory(words);
    else if (what == "chunk") chunk(words);
    else if (what == "verified") verified(words);
    else words.ok = m_driver.read_line(what, words, m_plan) && words.ok;
    return words.ok;
  }

 private:
  static void grid(PlanLine& words, LaunchShape& shape) {
    for (std::uint64_t& items : shape.grid) words.ok = (items = words.number()) != 0 && words.ok;
  }
  static void block(PlanLine& words, LaunchShape& shape) {
    for (std::uint32_t& items : shape.block) words.ok = (items = words.small()) != 0 && words.ok;
  }
  void variant_shape(PlanLine& words) {
    LaunchShape& shape = m_plan.variant_shape.emplace();
    grid(words, shape);
    block(words, shape);
    shape.dynamic_lds_bytes = words.small();
  }
  const Memory* named(PlanLine& words) {
    const std::string_view name = words.word();
    if (name == "-") return nullptr;
    return &m_plan.memories[std::string(name)];
  }
  void code(PlanLine& words) {
    const bool is_variant = words.of_variant();
    (is_variant ? m_plan.variant : m_plan.baseline) = words.path();
  }
  void linked(PlanLine& words) {
    const bool is_variant = words.of_variant();
    (is_variant ? m_plan.variant_linked : m_plan.linked) = words.path();
  }
  void argument(PlanLine& words) {
    m_plan.arguments.push_back(words.number());
    words.ok = words.ok && m_plan.arguments.back() < m_plan.kernarg.size();
  }
  void region(PlanLine& words) {
    Region region;
    region.base = words.number();
    region.bytes = words.number();
    const auto kind = std::find(k_kinds.begin(), k_kinds.end(), words.word());
    words.ok = words.ok && kind != k_kinds.end();
    region.kind = static_cast<Kind>(kind - k_kinds.begin());
    region.device = words.device();
    region.access = words.number();
    region.flags = words.small();
    region.host = words.number();
    region.align = words.number();
    region.own_code = words.number() != 0;
    region.piece = words.small();
    region.pre = named(words);
    region.post = named(words);
    const bool ascending = m_plan.regions.empty() || m_plan.regions.back().end() <= region.base;
    words.ok = words.ok && ascending && region.base + region.bytes >= region.base;
    m_plan.regions.push_back(std::move(region));
  }
  void written(PlanLine& words) {
    const std::uint64_t index = words.number();
    const ByteRange range{words.number(), words.number()};
    words.ok = words.ok && index < m_plan.regions.size() && range.offset <= m_plan.regions[index].bytes &&
               range.bytes <= m_plan.regions[index].bytes - range.offset;
    if (words.ok) m_plan.regions[index].written.push_back(range);
  }
  void order(PlanLine& words) {
    const std::uint64_t seed = words.number();
    words.ok = words.ok && !m_plan.states.empty();
    if (words.ok) m_plan.states.back().order = seed;
  }
  void change(PlanLine& words) {
    const std::uint64_t index = words.number();
    const Memory* memory = named(words);
    words.ok = words.ok && !m_plan.states.empty() && index < m_plan.regions.size() && memory != nullptr;
    if (words.ok) m_plan.states.back().changes.push_back({static_cast<std::size_t>(index), memory});
  }
  void variable(PlanLine& words) {
    Variable variable;
    variable.address = words.number();
    variable.bytes = words.number();
    variable.pre = named(words);
    variable.post = named(words);
    variable.name = words.rest();
    m_plan.variables.push_back(std::move(variable));
  }
  void fixed(PlanLine& words) {
    auto& names = words.of_variant() ? m_plan.variant_fixed : m_plan.fixed;
    names.emplace(words.rest());
  }
  void function(PlanLine& words) {
    StoredFunction found;
    found.of_variant = words.of_variant();
    found.captured = words.number();
    found.offset = words.number();
    found.bytes = words.number();
    found.variable = words.rest();
    words.ok = words.ok && found.offset < found.bytes && found.bytes - found.offset >= sizeof(std::uint64_t);
    m_plan.functions.push_back(std::move(found));
  }
  void memory(PlanLine& words) {
    m_memory = &m_plan.memories[std::string(words.word())];
    m_memory->bytes = words.number();
    m_memory->chunk_bytes = words.number();
    words.ok = words.ok && m_memory->chunk_bytes > 0;
  }
  void chunk(PlanLine& words) {
    const std::string_view digest = words.word();
    words.ok = words.ok && m_memory != nullptr;
    if (words.ok) m_memory->chunks.emplace_back(digest == "-" ? "" : digest);
  }
  void verified(PlanLine& words) { m_plan.memories[std::string(words.word())].is_verified = true; }

  Plan& m_plan;
  Driver& m_driver;
  Memory* m_memory = nullptr;
};

// What is put back between runs, in chunks like the captured ones. Of the kernel's own code only its variables change.
bool can_change(const Region& region, const Memory& memory) {
  return region.pre != nullptr && (region.flags & k_flag_read_only) == 0 &&
         memory.bytes == region.bytes && memory.chunk_bytes == region.pre->chunk_bytes;
}

bool complete(const Memory& memory) {
  return memory.chunk_bytes > 0 && memory.chunks.size() == (memory.bytes + memory.chunk_bytes - 1) / memory.chunk_bytes;
}

}  // namespace

std::uint32_t Plan::actual_device(std::uint32_t captured) const {
  const auto found = devices.find(captured);
  return found == devices.end() ? captured : found->second;
}

const Region* Plan::region_at(std::uint64_t address) const {
  auto after = std::upper_bound(regions.begin(), regions.end(), address,
                                [](std::uint64_t at, const Region& region) { return at < region.base; });
  if (after == regions.begin()) return nullptr;
  const Region& found = *std::prev(after);
  return address < found.end() ? &found : nullptr;
}

Region Plan::place_of_code() const {
  Region own;
  own.device = kernel_device;
  own.kind = Kind::code_object;
  return own;
}

bool Plan::is_written(const Variable& variable) const {
  // A region's ranges also cover what lies close to a written byte: they count only where there is nothing better.
  if (variable.pre != nullptr) return variable.pre != variable.post;
  const Region* region = region_at(variable.address);
  if (region == nullptr) return false;
  const std::uint64_t begin = variable.address - region->base;
  return std::any_of(region->written.begin(), region->written.end(), [&](const ByteRange& written) {
    return written.offset < begin + variable.bytes && begin < written.offset + written.bytes;
  });
}

Result<Plan> read_plan(const std::string& path, Driver& driver) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != "kcplan 2") {
    return Error{ErrorCode::invalid_argument, path + " is not a replay plan of version 2"};
  }
  Plan plan;
  Parser parser(plan, driver);
  for (std::size_t number = 2; std::getline(file, line); ++number) {
    if (!parser.line(line)) {
      return Error{ErrorCode::invalid_argument, path + ":" + std::to_string(number) + ": not understood: " + line};
    }
  }
  for (const auto& [name, memory] : plan.memories) {
    if (!complete(memory)) return Error{ErrorCode::invalid_argument, path + ": memory " + name + " is incomplete"};
  }
  for (const Region& region : plan.regions) {
    for (const Memory* memory : {region.pre, region.post}) {
      if (memory != nullptr && memory->bytes != region.bytes) {
        return Error{ErrorCode::invalid_argument, path + ": a region of " + std::to_string(region.bytes) + " bytes has a state of " +
                                                      std::to_string(memory->bytes)};
      }
    }
  }
  // A comparison takes both states chunk by chunk.
  for (const Region& region : plan.regions) {
    if (region.post == nullptr || (region.pre != nullptr && region.pre->chunk_bytes == region.post->chunk_bytes)) continue;
    return Error{ErrorCode::invalid_argument, path + ": a region has a state after the kernel, and none before it in equal chunks"};
  }
  for (const State& state : plan.states) {
    for (const State::Change& change : state.changes) {
      if (can_change(plan.regions[change.region], *change.memory)) continue;
      return Error{ErrorCode::invalid_argument, path + ": a state changes a region that cannot change between runs"};
    }
  }
  if (plan.symbol.empty() || plan.baseline.empty()) {
    return Error{ErrorCode::invalid_argument, path + ": no kernel to run"};
  }
  if (plan.variant_symbol.empty()) plan.variant_symbol = plan.symbol;
  return plan;
}

}  // namespace kerncap::replay
