// Carries out a plan through a driver.
#include "replay/engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "replay/address_space.hpp"
#include "replay/chunk_fetcher.hpp"
#include "replay/restore.hpp"

namespace kerncap::replay {
namespace {

using core::Error;
using core::ErrorCode;
using core::Result;

// Parts of the write set that are closer than this are put back in one copy: a copy has a price of its own.
constexpr std::uint64_t k_join_bytes = 64 * 1024;

// A run that takes longer is not repeated unasked.
constexpr std::uint64_t k_long_run_ms = 20'000;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

Result<std::vector<std::byte>> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Error{ErrorCode::not_found, "cannot read " + path};
  std::vector<std::byte> data(static_cast<std::size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(data.size()));
  if (!file) return Error{ErrorCode::io, "cannot read " + path};
  return data;
}

// Says whose file the driver does not take: that of the user, or that of the capture.
Error of_code(bool is_variant, Error error) {
  const bool is_refused = error.code == ErrorCode::invalid_argument;
  if (is_variant && (is_refused || error.code == ErrorCode::not_found)) {
    return {ErrorCode::invalid_argument, "the variant cannot be loaded: " + error.message};
  }
  if (is_variant && error.code == ErrorCode::unsupported) {
    return {ErrorCode::unsupported, "the variant cannot be loaded: " + error.message};
  }
  if (is_refused) return {ErrorCode::device, "the captured code object cannot be loaded: " + error.message};
  return error;
}

}  // namespace

Result<Outcome> Engine::run(const std::vector<Range>& ranges) {
  Result<std::shared_ptr<core::ObjectStore>> store = core::ObjectStore::open(m_plan.store);
  if (!store) return store.error();
  m_store = std::move(store.value());
  if (Result<void> placed = place(ranges); !placed) return placed.error();
  if (Result<void> loaded = load(); !loaded) return loaded.error();
  if (Result<void> known = look_up_functions(); !known) return known.error();
  if (Result<void> restored = restore(ranges); !restored) return restored.error();
  if (Result<void> bound = bind_variables(); !bound) return bound.error();
  if (m_options.compare || m_options.changes_only) {
    if (Result<void> remembered = m_unchanged.remember(); !remembered) return remembered.error();
  }
  const bool runs_again = m_options.repeats != 0 || !m_plan.states.empty() || m_plan.guarded;
  if (m_plan.guarded) {
    m_own.emplace(m_plan, m_driver, *m_candidates.back().code);
    if (Result<void> kept = m_own->keep(); !kept) return kept.error();
  }
  if (runs_again || m_candidates.size() * (m_options.warmup + m_options.iterations) > 1) {
    const Result<void> saved = save_write_set();
    if (!saved && !runs_again) return saved.error();
    if (!saved) m_outcome.ran_once = saved.error().message;
  }
  const std::uint64_t began = now_ns();
  const Result<void> ran = run_all();
  // Where a launch that was not waited for has failed, whatever came behind it fails too.
  if (Result<void> timed = take_times(); !timed) return timed.error();
  if (!ran) return ran.error();
  const std::uint64_t took_ms = (now_ns() - began) / 1'000'000;
  if (took_ms > std::max(k_long_run_ms, m_options.repeat_ms)) {
    m_outcome.ran_once = "a run takes " + std::to_string(took_ms / 1000) + " s";
  }
  if (Result<void> finished = finish(m_candidates.back()); !finished) return finished.error();
  if (m_options.repeats != 0 && m_outcome.ran_once.empty()) {
    if (Result<void> repeated = repeat(m_candidates.back()); !repeated) return repeated.error();
  }
  if (m_outcome.ran_once.empty() && took_ms <= m_options.states_within_ms) {
    if (Result<void> done = run_states(m_candidates.back()); !done) return done.error();
  }
  if (Result<void> guarded = run_guarded(m_candidates.back()); !guarded) return guarded.error();
  m_outcome.without = m_driver.opened().without;
  if (m_options.timed) {
    for (const std::string& note : m_driver.opened().stand_ins) m_outcome.notes.push_back(note);
  }
  return m_outcome;
}

Result<void> Engine::place(const std::vector<Range>& ranges) {
  for (const Range& range : ranges) {
    if (range.is_code()) continue;
    if (m_driver.holds_with_pages(range)) {
      if (Result<void> free = let_go(range); !free) return free;
    }
    if (Result<void> placed = m_driver.place(range); !placed) return placed;
  }
  return {};
}

// The captured code object lies where it lay, also beside a variant: function pointers, virtual tables and pointers to
// variables in captured memory lead there.
Result<void> Engine::load() {
  const bool has_place = m_plan.loaded_bytes != 0;
  const std::optional<std::uint64_t> at = has_place ? std::optional(m_plan.loaded_address) : std::nullopt;
  if (m_plan.variant.empty() || m_options.interleave) {
    if (Result<void> added = add(false, at); !added) return added;
  } else if (has_place || !m_plan.variables.empty()) {
    Result<Loaded> loaded = load_code(false, at);
    if (!loaded) return loaded.error();
    m_beside = std::move(loaded.value().code);
  }
  if (m_plan.variant.empty()) return {};
  if (!m_plan.variables.empty()) {
    const Code& captured = m_beside != nullptr ? *m_beside : *m_candidates.front().code;
    Result<MovedVariables::Contents> initial = has_place ? variables_in_place() : variables_of(captured);
    if (!initial) return initial.error();
    m_initial = std::move(initial.value());
  }
  m_references.emplace(m_plan);
  if (Result<void> added = add(true, std::nullopt); !added) return added;
  const Code& code = *m_candidates.back().code;
  m_outcome.variant_address = code.load_address;
  m_outcome.variant_bytes = code.load_bytes;
  return {};
}

Result<Engine::Loaded> Engine::load_code(bool is_variant, std::optional<std::uint64_t> at) {
  const std::string& symbol = is_variant ? m_plan.variant_symbol : m_plan.symbol;
  if (const std::string& linked = is_variant ? m_plan.variant_linked : m_plan.linked; !linked.empty()) {
    const Result<std::vector<std::byte>> file = read_file(linked);
    if (!file) return file.error();
    Result<std::unique_ptr<Code>> code = m_driver.load(file.value(), symbol, at);
    if (code) return Loaded{std::move(code.value()), true};
    m_outcome.notes.push_back("variables are not where they were captured, and pointers to them lead to copies, as the driver "
                              "does not take the code that was linked to their places: " + code.error().message);
  }
  const Result<std::vector<std::byte>> file = read_file(is_variant ? m_plan.variant : m_plan.baseline);
  if (!file) return file.error();
  Result<std::unique_ptr<Code>> code = m_driver.load(file.value(), symbol, at);
  if (!code) return of_code(is_variant, code.error());
  return Loaded{std::move(code.value()), false};
}

Result<void> Engine::add(bool is_variant, std::optional<std::uint64_t> at) {
  Result<Loaded> loaded = load_code(is_variant, at);
  if (!loaded) return loaded.error();
  auto& [code, is_linked] = loaded.value();
  auto variables = std::make_unique<MovedVariables>(m_plan, m_driver, *code, is_variant, is_linked);
  auto* times = is_variant ? &m_outcome.variant_ns : &m_outcome.baseline_ns;
  auto* states = is_variant ? &m_outcome.variant_states : &m_outcome.baseline_states;
  m_candidates.push_back({std::move(code), std::move(variables), times, states});
  return {};
}

// Before anything is written to their variables. Where two code objects run in turn, both call the captured one's functions.
Result<void> Engine::look_up_functions() {
  for (const Candidate& candidate : m_candidates) {
    const bool is_variant = candidate.times == &m_outcome.variant_ns;
    const bool is_home = &candidate == &m_candidates.front();
    Result<void> found = m_functions.look_up(m_plan, m_driver, *candidate.code, is_variant, is_home);
    if (!found) return found;
  }
  return {};
}

Result<MovedVariables::Contents> Engine::variables_in_place() {
  MovedVariables::Contents initial;
  for (const Variable& variable : m_plan.variables) {
    const Region* region = m_plan.region_at(variable.address);
    if (region == nullptr || !region->own_code) continue;
    std::vector<std::byte> data(variable.bytes);
    if (Result<void> read = m_driver.read(*region, variable.address, data); !read) return read.error();
    initial.emplace(&variable, std::move(data));
  }
  return initial;
}

// Where the captured code object has no place of its own: what it has in its variables wherever it was loaded now.
Result<MovedVariables::Contents> Engine::variables_of(const Code& code) {
  MovedVariables::Contents initial;
  for (const Variable& variable : m_plan.variables) {
    const auto address = code.variable(variable.name, variable.bytes);
    if (!address) continue;
    std::vector<std::byte> data(variable.bytes);
    if (Result<void> read = m_driver.read(m_plan.place_of_code(), *address, data); !read) return read.error();
    initial.emplace(&variable, std::move(data));
  }
  return initial;
}

Result<void> Engine::bind_variables() {
  if (m_plan.variant.empty() && m_plan.loaded_bytes != 0) return {};   // all are where they were
  Result<MovedVariables::Contents> captured = variables_in_place();
  if (!captured) return captured.error();
  for (const Variable& variable : m_plan.variables) {
    if (variable.pre == nullptr || captured.value().contains(&variable)) continue;
    Result<std::vector<std::byte>> data = read_memory(*m_store, *variable.pre);
    if (!data) return data.error();
    captured.value().emplace(&variable, std::move(data.value()));
  }
  for (Candidate& candidate : m_candidates) {
    if (Result<void> bound = candidate.variables->bind(captured.value(), m_initial, m_functions); !bound) return bound;
  }
  return {};
}

Result<void> Engine::restore(const std::vector<Range>& ranges) {
  const std::uint64_t begin = now_ns();
  const auto look = [&](const Region& region, std::span<std::byte> data) {
    if (m_functions.wanted()) m_function_words += m_functions.bring_here(data);
    // Tables of the code object's own addresses are as it was loaded: only other memory counts as pointing to it.
    if (m_references && m_references->wanted() && !region.own_code) m_references->look_at(data);
  };
  const Result<std::uint64_t> restored = restore_regions(m_plan, m_store, m_driver, m_options.verify, m_progress, look);
  if (!restored) return restored.error();
  if (Result<void> sealed = m_driver.seal(ranges); !sealed) return sealed;
  m_outcome.restored_bytes = restored.value();
  m_outcome.restore_ns = now_ns() - begin;
  if (m_references) m_references->look_at(m_plan.kernarg);
  return {};
}

Result<void> Engine::save_write_set() {
  const bool restores_all = m_options.restore_all || !m_plan.states.empty();
  std::vector<std::pair<const Region*, ByteRange>> parts;
  for (const Region& region : m_plan.regions) {
    // A variant may write more than the captured kernel did; but instructions are left alone.
    const bool is_writable = !region.own_code && (region.flags & k_flag_read_only) == 0;
    if (region.pre != nullptr && (region.post == nullptr || (restores_all && is_writable))) {
      parts.push_back({&region, {0, region.bytes}});
      continue;
    }
    const Region* previous = nullptr;
    for (const ByteRange& written : region.written) {
      ByteRange* last = previous == &region ? &parts.back().second : nullptr;
      if (last != nullptr && written.offset <= last->offset + last->bytes + k_join_bytes) {
        last->bytes = std::max(last->bytes, written.offset + written.bytes - last->offset);
      } else {
        parts.push_back({&region, written});
        previous = &region;
      }
    }
  }
  // What a code object counts or keeps in variables of its own does not outlive a run that is timed.
  if (m_options.timed && !m_plan.variant.empty()) {
    for (const AddressRange& own : m_candidates.back().code->own_data()) {
      if (own.bytes != 0) parts.push_back({&m_code_place, {own.base, own.bytes}});
    }
  }
  return m_driver.save(parts);
}

Result<void> Engine::run_all() {
  const std::uint64_t runs = m_options.warmup + m_options.iterations;
  for (std::uint64_t i = 0; i < runs; ++i) {
    m_progress.tell("run", i, runs);
    for (Candidate& candidate : m_candidates) {
      const bool counts = i >= m_options.warmup;
      const bool judges = counts && m_options.timed && m_options.compare;
      const Result<bool> ahead = judges ? run_ahead(candidate) : Result<bool>(false);
      if (!ahead) return ahead.error();
      if (Result<void> ran = run_once(candidate, counts, ahead.value()); !ran) return ran;
      if (!judges) continue;
      if (Result<void> judged = judge(candidate); !judged) return judged;
    }
  }
  return {};
}

Result<void> Engine::take_times() {
  if (m_untold.empty()) return {};
  const Result<std::vector<Timing>> times = m_driver.times();
  m_faulted = m_faulted || !times.ok();
  if (!times) return times.error();
  for (std::size_t i = 0; i < m_untold.size(); ++i) {
    if (m_untold[i] != nullptr) m_untold[i]->push_back(times.value().at(i).duration_ns);
  }
  m_untold.clear();
  return {};
}

Result<void> Engine::run_once(Candidate& candidate, bool counts, bool follows) {
  if (Result<void> scrubbed = m_driver.scrub(*candidate.code, follows); !scrubbed) return scrubbed;
  if (!m_is_fresh) {
    if (Result<void> restored = m_driver.restore_saved(); !restored) return restored;
  }
  m_is_fresh = false;
  if (Result<void> restored = candidate.variables->restore(); !restored) return restored;
  if (m_options.flush_cache) {
    if (Result<void> flushed = m_driver.flush_cache(); !flushed) return flushed;
  }
  Launch launch{};
  launch.is_variant = candidate.times == &m_outcome.variant_ns;
  const LaunchShape& shape = launch.is_variant && m_plan.variant_shape ? *m_plan.variant_shape : m_plan.shape;
  std::copy_n(m_options.grid ? m_options.grid->data() : shape.grid, 3, launch.grid);
  std::copy_n(m_options.block ? m_options.block->data() : shape.block, 3, launch.block);
  launch.dynamic_lds_bytes = m_options.dynamic_lds_bytes.value_or(shape.dynamic_lds_bytes);
  std::vector<std::byte> kernarg = m_plan.kernarg;
  if (launch.is_variant) kernarg.resize(std::max<std::size_t>(kernarg.size(), m_plan.variant_kernarg_bytes));
  m_functions.bring_here(kernarg);
  launch.kernarg = kernarg;
  m_faulted = false;
  if (Result<void> guarded = m_guards ? m_driver.guard(true) : Result<void>(); !guarded) return guarded;
  const Result<Timing> timing = m_driver.launch(*candidate.code, launch);
  m_faulted = !timing.ok();
  if (!timing) return timing.error();
  if (!timing.value().is_known) {
    m_untold.push_back(counts ? candidate.times : nullptr);
  } else if (counts) {
    candidate.times->push_back(timing.value().duration_ns);
  }
  return {};
}

Result<void> Engine::finish(Candidate& last) {
  if (!m_options.compare && m_options.dump_folder.empty()) return {};
  const bool was_judged = m_judged != nullptr;
  if (Result<void> looked = was_judged ? Result<void>() : m_unchanged.look(); !looked) return looked;
  if (Result<void> collected = last.variables->collect(); !collected) return collected;
  if (Result<void> looked = look_outside(); !looked) return looked;
  if (m_function_words != 0) {
    m_outcome.notes.push_back("functions lie elsewhere than in the capture: " + std::to_string(m_function_words) +
                              " words of memory that held their addresses lead to where they are now");
  }
  if (m_references) {
    for (const std::string& name : last.variables->written_twofold(m_references->found())) {
      m_outcome.notes.push_back("the variant has the module variable " + name +
                                " elsewhere than the captured code object, and captured memory points to the old place: "
                                "what the variant writes by one way it does not see by the other");
    }
  }
  if (m_options.compare) {
    // Where no device compares, later runs were not compared everywhere.
    const bool is_known = was_judged && (!m_first || m_driver.watch() != nullptr);
    Result<Comparison> compared = is_known ? m_comparisons.at(last.states->back()) : compare(last);
    if (!compared) return compared.error();
    m_outcome.compared = compared.value().compared;
    m_outcome.compared_bytes = compared.value().bytes;
    m_outcome.differences = std::move(compared.value().differences);
    for (std::string& note : compared.value().notes) m_outcome.notes.push_back(std::move(note));
  }
  if (m_options.dump_folder.empty()) return {};
  return m_options.changes_only ? dump_changes(last, m_options.dump_folder) : dump(last, m_options.dump_folder);
}

Result<void> Engine::look_outside() {
  Watch* watch = m_driver.watch();
  if (watch == nullptr) return {};
  Result<std::vector<AddressRange>> outside = watch->written_outside();
  if (!outside) return outside.error();
  const bool is_new = m_outcome.outside.empty() && !outside.value().empty();
  m_outcome.outside = std::move(outside.value());
  if (is_new) {
    char at[32];
    std::snprintf(at, sizeof at, "0x%lx", m_outcome.outside.front().base);
    m_outcome.notes.push_back(std::string("the kernel writes outside of all captured memory, first at ") + at);
  }
  return {};
}

}  // namespace kerncap::replay
