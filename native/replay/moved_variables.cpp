// Keeps the two places of a moved variable in step before a run, and brings them together after it.
#include "replay/moved_variables.hpp"

#include <algorithm>
#include <cstring>

namespace kerncap::replay {

using core::Error;
using core::ErrorCode;
using core::Result;

Result<std::vector<std::byte>> MovedVariables::read(std::uint64_t address, std::uint64_t bytes) {
  std::vector<std::byte> data(bytes);
  if (Result<void> done = m_driver.read(m_plan.place_of_code(), address, data); !done) return done.error();
  return data;
}

namespace {

// The linker numbers static variables of one name: `table`, `table.2`.
std::string_view without_number(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  return end != std::string_view::npos && end + 1 < name.size() && name[end] == '.' ? name.substr(0, end) : name;
}

}  // namespace

// A variant is one unit of the program, and has one of the static variables that several units have by the same name.
Result<std::optional<std::uint64_t>> MovedVariables::place_here(const Variable& variable, const Contents& captured) {
  const std::string name(without_number(variable.name));
  std::vector<const Variable*> twins;
  bool one_each = true;
  for (const Variable& other : m_plan.variables) {
    if (other.bytes != variable.bytes || without_number(other.name) != name || !captured.contains(&other)) continue;
    twins.push_back(&other);
    one_each = one_each && named(other.name, other.bytes).has_value();
  }
  if (twins.size() < 2 || one_each) return named(variable.name, variable.bytes);
  const auto here = named(name, variable.bytes);
  if (!here) return here;
  // What the captured kernel writes by name is its own unit's. If it writes none, and all hold the same, any will do.
  const auto is_written = [this](const Variable* twin) { return m_plan.is_written(*twin); };
  const auto written = std::count_if(twins.begin(), twins.end(), is_written);
  const bool all_same = std::all_of(twins.begin(), twins.end(), [&](const Variable* twin) {
    return captured.at(twin) == captured.at(twins.front());
  });
  if (written > 1 || (written == 0 && !all_same)) {
    return Error{ErrorCode::unsupported,
                 "several units of the captured code object have a static variable " + name +
                     ", and which of them is the variant's cannot be told: rename it, and capture again"};
  }
  const Variable* own = written == 0 ? twins.front() : *std::find_if(twins.begin(), twins.end(), is_written);
  return own == &variable ? here : std::nullopt;
}

std::optional<std::uint64_t> MovedVariables::named(const std::string& name, std::uint64_t bytes) const {
  const auto renamed = m_plan.renamed.find(name);
  return m_code.variable(m_is_variant && renamed != m_plan.renamed.end() ? renamed->second : name, bytes);
}

Result<void> MovedVariables::bind(const Contents& captured, const Contents& initial, const StoredFunctions& functions) {
  for (const Variable& variable : m_plan.variables) {
    const auto found = captured.find(&variable);
    if (found == captured.end()) continue;
    const Result<std::optional<std::uint64_t>> place = place_here(variable, captured);
    if (!place) return place.error();
    const std::optional<std::uint64_t>& own = place.value();
    if (!own || *own == variable.address) continue;
    const bool is_fixed = m_is_linked && (m_is_variant ? m_plan.variant_fixed : m_plan.fixed).contains(variable.name);
    const bool has_original = !is_fixed && m_plan.region_at(variable.address) != nullptr;
    Moved moved{&variable, is_fixed ? variable.address : *own, has_original, found->second, found->second, {}, false, {}, {}};
    const auto first = initial.find(&variable);
    const bool untouched = first != initial.end() && first->second == found->second;
    if (untouched && !m_plan.is_written(variable)) {
      Result<std::vector<std::byte>> given = read(*own, variable.bytes);
      if (!given) return given.error();
      moved.start = std::move(given.value());
    }
    functions.bring_here(moved.original);
    functions.bring_here(moved.start);
    moved.bound_original = moved.original;
    moved.bound_start = moved.start;
    // What is restored anyway need not be written once more.
    if (!is_fixed || moved.start != moved.original) m_moved.push_back(std::move(moved));
  }
  return {};
}

void MovedVariables::choose(const Variable& variable, std::span<const std::byte> held, const StoredFunctions& functions) {
  for (Moved& moved : m_moved) {
    if (moved.captured != &variable) continue;
    moved.original.assign(held.begin(), held.end());
    functions.bring_here(moved.original);
    const bool is_as_captured = moved.original == moved.bound_original;
    moved.start = is_as_captured ? moved.bound_start : moved.original;
  }
}

Result<void> MovedVariables::restore() {
  for (const Moved& moved : m_moved) {
    if (Result<void> written = m_driver.write(m_plan.place_of_code(), moved.here, moved.start); !written) return written;
  }
  return {};
}

Result<void> MovedVariables::collect() {
  for (Moved& moved : m_moved) {
    Result<std::vector<std::byte>> here = read(moved.here, moved.captured->bytes);
    if (!here) return here.error();
    moved.state = moved.original;
    if (moved.has_original) {
      Result<std::vector<std::byte>> there = read(moved.captured->address, moved.captured->bytes);
      if (!there) return there.error();
      moved.state = std::move(there.value());
    }
    for (std::size_t i = 0; i < moved.state.size(); ++i) {
      const bool through_pointer = moved.state[i] != moved.original[i];
      const bool by_name = here.value()[i] != moved.start[i];
      moved.was_written = moved.was_written || through_pointer || by_name;
      if (through_pointer && by_name) {
        return Error{ErrorCode::unsupported,
                     "the variant changes the module variable " + moved.captured->name +
                         " both by name and through a pointer in captured memory, and has it elsewhere than the "
                         "captured code object: the two changes cannot be brought together"};
      }
      if (by_name) moved.state[i] = here.value()[i];
    }
  }
  return {};
}

void MovedVariables::overlay(std::uint64_t address, std::span<std::byte> data) const {
  for (const Moved& moved : m_moved) {
    const std::uint64_t base = moved.captured->address;
    const std::uint64_t begin = std::max(address, base);
    const std::uint64_t end = std::min(address + data.size(), base + moved.state.size());
    if (begin < end) std::memcpy(&data[begin - address], &moved.state[begin - base], end - begin);
  }
}

const std::vector<std::byte>* MovedVariables::state_of(const Variable& variable) const {
  const auto found = std::find_if(m_moved.begin(), m_moved.end(),
                                  [&](const Moved& moved) { return moved.captured == &variable; });
  return found == m_moved.end() ? nullptr : &found->state;
}

std::vector<std::string> MovedVariables::written_twofold(const std::set<const Variable*>& pointed_to) const {
  std::vector<std::string> names;
  for (const Moved& moved : m_moved) {
    if (moved.was_written && pointed_to.contains(moved.captured)) names.push_back(moved.captured->name);
  }
  return names;
}

}  // namespace kerncap::replay
